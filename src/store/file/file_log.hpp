// FileLog: a RecordLog kept in a LockedFile that others write to as well.
//
// Every use is one turn: lock, read what others have written since, work, unlock. A turn never
// waits; who does not get the lock comes again.
//
// Thread safety: none; the owner serialises. Errors: DistStoreError; STORE_LOST when the file was
// removed or replaced, PROTOCOL when it holds something else or has shrunk. After these two
// every turn fails in the same way.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "unisono/base/error.hpp"

#include "store/file/locked_file.hpp"
#include "store/file/owners.hpp"
#include "store/file/record_log.hpp"

namespace unisono {

/// Whether an object is counted as one of the job. A visitor is not: it leaves no trace but the
/// values it writes, and never empties or removes the file.
enum class Presence : std::uint8_t { MEMBER, VISITOR };

class FileLog {
 public:
  FileLog(std::string path, Presence presence);

  /// One try to come onto the file: a member empties it if it was left over by a dead job, and
  /// is counted in. False when another holds the lock, or the file was just removed.
  bool tryEnter();

  /// One turn of `body`. False when another holds the lock.
  bool tryTurn(LockMode mode, const std::function<void(FileLog&)>& body);

  /// One try to leave: counts a member out, or removes the file if it was the last and at least
  /// `worldSize` (if that is not negative) have been on it.
  bool tryLeave(int worldSize);

  /// The value that a user keeps under `key`, or null. Within a turn.
  const std::string* find(std::string_view key) const;
  const RecordLog::Values& values() const noexcept { return log_.values(); }

  /// Writes one change, all of it or nothing. Within an exclusive turn. Throws RESOURCE.
  void write(const std::vector<Record>& records);

  std::string lockHolder() const { return file_.lockHolder(); }

 private:
  void append(std::string_view bytes);
  void catchUp(LockMode mode);
  void rememberBeginning();
  bool replayTail(std::uint64_t size);
  void reclaimIfStale(const ProcessMark& here, std::chrono::seconds age);
  std::int64_t count(std::string_view key, std::int64_t delta) const;
  [[noreturn]] void breakWith(Reason reason, std::string_view why);

  const std::string id_;
  const Presence presence_;
  LockedFile file_;
  RecordLog log_;
  std::string beginning_;  // of the file: no append changes it
  bool torn_ = false;      // an incomplete change is to be cut off
  std::optional<ErrorFacts> broken_;
};

}  // namespace unisono

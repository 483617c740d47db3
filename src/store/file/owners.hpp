// Owners: who is on a FileStore's file, and whether the file has outlived them all.
//
// Every object of ours leaves an "open" record, and a "close" record when it is destroyed.
// PyTorch's objects leave neither; they are known only as the part of "refcount/" that ours do
// not explain.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "store/file/record_log.hpp"

namespace unisono {

/// A process, described so that others can find out later whether it still lives.
struct ProcessMark {
  pid_t pid = 0;
  std::uint64_t startTicks = 0;    // since boot; tells a process from a later one of the same pid
  std::uint64_t pidNamespace = 0;  // where the pid means something
  std::string boot;                // the kernel's random id of this boot
  std::string host;                // its name and machine id
};

/// The calling process.
ProcessMark thisProcess();

/// "pid startTicks pidNamespace boot host".
std::string encodeMark(const ProcessMark& mark);
std::optional<ProcessMark> decodeMark(std::string_view text);

enum class Life : std::uint8_t {
  GONE,
  ALIVE,
  UNSEEN,  // on another host, or in a container that we cannot look into
};

/// What became of `process`, as seen from `here`.
Life lifeOf(const ProcessMark& process, const ProcessMark& here);

/// What the log says about those who are or were on the file.
struct Occupancy {
  bool ours = false;       // made by us, or joined by one of ours
  bool alive = false;      // some process that opened it lives
  bool unseen = false;     // of some that opened it nothing is known
  std::int64_t stock = 0;  // objects of PyTorch that have not left, as far as one can count

  /// The file is left over: everybody who opened it is known to be gone.
  bool isStale() const noexcept { return ours && !alive && !unseen && stock == 0; }
};

/// Reads the occupancy out of `log`. An open record that we cannot read counts as
/// unseen.
Occupancy readOccupancy(const RecordLog& log, const ProcessMark& here);

/// The records of an object called `id` that comes and that goes.
Record openRecord(std::string_view id, const ProcessMark& here);
Record closeRecord(std::string_view id);

/// A random name of 32 hexadecimal digits.
std::string newId();

}  // namespace unisono

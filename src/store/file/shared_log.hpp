// SharedLog: a FileLog for many threads, with deadlines.
//
// A call asks for the file's lock again and again, every 1 to 10 ms, and between the tries holds
// nothing: calls that wait do not hold up others. Files have nothing better to wait on.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/fork.hpp"
#include "base/gate.hpp"
#include "base/wait.hpp"
#include "store/file/file_log.hpp"

namespace unisono {

class SharedLog {
 public:
  using Body = std::function<void(FileLog&)>;

  /// Comes onto the file at `path` (absolute).
  SharedLog(std::string path, Presence presence, Milliseconds timeout);

  /// Ends the calls of other threads with SHUTDOWN, waits for them, and leaves the file as
  /// FileLog::tryLeave does; says so in the log if that cannot be done within a second.
  void leave(int worldSize) noexcept;

  /// One turn of `body`, as soon as the lock can be had; DistStoreError (TIMEOUT) otherwise.
  void run(std::string_view op, LockMode mode, Milliseconds timeout, const Body& body);

  /// Waits until all `keys` are set at one moment, and runs `body` at that moment. Looks at them
  /// once even if `timeout` is 0.
  void runWhenSet(std::string_view op, std::span<const std::string> keys, Milliseconds timeout,
                  const Body& body);

  /// Throws UsageError (FORKED) in a child that inherited this by fork.
  void checkUsable() const { madeIn_.check("FileStore"); }

  /// True in a child that inherited this by fork: nothing here may be touched, not even destroyed.
  bool inChild() const noexcept { return madeIn_.inChild(); }

  const std::string& path() const noexcept { return path_; }

 private:
  Gate& admit() {
    checkUsable();
    return gate_;
  }
  bool runUntil(LockMode mode, const WaitContext& context,
                const std::function<bool(FileLog&)>& turn);
  std::string lockText();
  [[noreturn]] void throwLockTimeout(std::string_view op, Milliseconds timeout);

  const std::string path_;
  const ForkGuard madeIn_;
  Gate gate_;
  Mutex mutex_;
  FileLog file_ UNISONO_GUARDED_BY(mutex_);
};

/// Those of `keys` that are not set.
std::vector<std::string> missingOf(std::span<const std::string> keys, const FileLog& log);

}  // namespace unisono

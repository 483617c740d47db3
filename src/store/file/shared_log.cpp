#include "store/file/shared_log.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "store/common.hpp"

namespace unisono {
namespace {

// Even a call that is not to wait gives those who hold the lock for a moment this much time.
constexpr Milliseconds kLockGrace(50);
// A destructor cannot wait as long as a call may.
constexpr Milliseconds kLongestLeave(1000);

/// Sleeps 1 ms, then ever longer up to 10 ms.
class GrowingPause final : public Waitable {
 public:
  void sleep(Milliseconds most) override {
    TimerWaitable(pause_).sleep(most);
    pause_ = std::min(2 * pause_, Milliseconds(10));
  }

 private:
  Milliseconds pause_{1};
};

WaitContext lockWait(const std::string& path, Milliseconds timeout) {
  return {.deadline = Deadline::after(std::max(timeout, kLockGrace)),
          .subject = [&path] { return str("the lock of FileStore ", path); }};
}

}  // namespace

std::vector<std::string> missingOf(std::span<const std::string> keys, const FileLog& log) {
  std::vector<std::string> missing;
  for (const std::string& key : keys) {
    if (log.find(key) == nullptr) {
      missing.push_back(key);
    }
  }
  return missing;
}

SharedLog::SharedLog(std::string path, Presence presence, Milliseconds timeout)
    : path_(std::move(path)), file_(path_, presence) {
  GrowingPause pause;
  const bool entered = waitUntil(
      [this] {
        const MutexLock lock(mutex_);
        return file_.tryEnter();
      },
      lockWait(path_, timeout), pause);
  if (!entered) {
    throwLockTimeout("open", timeout);
  }
}

void SharedLog::leave(int worldSize) noexcept {
  gate_.close();
  gate_.waitEmpty();
  try {
    GrowingPause pause;
    const bool left = waitUntil(
        [this, worldSize] {
          const MutexLock lock(mutex_);
          return file_.tryLeave(worldSize);
        },
        lockWait(path_, kLongestLeave), pause);
    if (!left) {
      UNISONO_LOG(WARN, "store", "FileStore was destroyed without being counted out. ", lockText());
    }
  } catch (const std::exception& error) {
    UNISONO_LOG(WARN, "store", "FileStore was destroyed without being counted out: ", error.what());
  }
}

void SharedLog::run(std::string_view op, LockMode mode, Milliseconds timeout, const Body& body) {
  const Gate::Pass pass(admit(), "FileStore");
  const bool done = runUntil(mode, lockWait(path_, timeout), [&](FileLog& log) {
    body(log);
    return true;
  });
  if (!done) {
    throwLockTimeout(op, timeout);
  }
}

void SharedLog::runWhenSet(std::string_view op, std::span<const std::string> keys,
                           Milliseconds timeout, const Body& body) {
  const Gate::Pass pass(admit(), "FileStore");
  const Deadline deadline = Deadline::after(checkedTimeout(timeout));
  const WaitContext context{
      .deadline = Deadline::after(std::max(timeout, kLockGrace)),
      .subject = [&] { return str("keys ", shownKeys(keys), " in FileStore ", path_); }};
  std::vector<std::string> missing;
  const bool looked = runUntil(LockMode::SHARED, context, [&](FileLog& log) {
    missing = missingOf(keys, log);
    if (missing.empty()) {
      body(log);
    }
    return missing.empty() || deadline.expired();
  });
  if (!looked) {
    throwWaitTimeout(op, keys, timeout, lockText());
  }
  if (!missing.empty()) {
    const std::string late = op == "get" ? str("Timeout waiting for key: ", shownKey(keys[0]),
                                               " after ", timeout.count(), " ms")
                                         : "Wait timeout";
    throwWaitTimeout(op, keys, timeout,
                     str(late, ", missing in ", path_, ": ", shownKeys(missing)));
  }
}

/// Gives `turn` the locked file, again and again, until it returns true; false when the deadline
/// passes first.
bool SharedLog::runUntil(LockMode mode, const WaitContext& context,
                         const std::function<bool(FileLog&)>& turn) {
  GrowingPause pause;
  return waitUntil(
      [&] {
        if (gate_.isClosed()) {
          Gate::refuse("FileStore");
        }
        bool done = false;
        const MutexLock lock(mutex_);
        return file_.tryTurn(mode, [&](FileLog& log) { done = turn(log); }) && done;
      },
      context, pause);
}

std::string SharedLog::lockText() {
  const MutexLock lock(mutex_);
  return str("The lock of ", path_, " is held by ", file_.lockHolder());
}

void SharedLog::throwLockTimeout(std::string_view op, Milliseconds timeout) {
  throw DistStoreError(
      {.reason = Reason::TIMEOUT,
       .what = str(op, " gave up: timeout after ", timeout.count(), "ms. ", lockText()),
       .hint = "is that process stopped or hanging? continue or end it",
       .op = std::string(op),
       .elapsed = timeout});
}

}  // namespace unisono

// TaskQueue: functions that any thread hands to an event loop.
//
// Thread safety: push() from any thread; runAll() from the loop's.
#pragma once

#include <string_view>
#include <vector>

#include "base/mutex.hpp"
#include "base/unique_function.hpp"

namespace unisono {

class TaskQueue {
 public:
  /// True when nothing was waiting before, so that the loop has to be woken.
  bool push(UniqueFunction<void()> task) UNISONO_EXCLUDES(mutex_);

  /// Runs what is there now, in order of push(); what these push themselves waits for next time.
  void runAll() noexcept UNISONO_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::vector<UniqueFunction<void()>> waiting_ UNISONO_GUARDED_BY(mutex_);
  std::vector<UniqueFunction<void()>> running_;  // the loop's; keeps its memory between turns
};

/// Runs `task`; what it throws is logged, as nobody on a loop could catch it.
void runOnLoop(UniqueFunction<void()>& task, std::string_view what) noexcept;

}  // namespace unisono

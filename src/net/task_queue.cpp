#include "net/task_queue.hpp"

#include <exception>
#include <utility>

#include "base/log.hpp"

namespace unisono {

bool TaskQueue::push(UniqueFunction<void()> task) {
  const MutexLock lock(mutex_);
  waiting_.push_back(std::move(task));
  return waiting_.size() == 1;
}

void TaskQueue::runAll() noexcept {
  {
    const MutexLock lock(mutex_);
    running_.swap(waiting_);
  }
  for (UniqueFunction<void()>& task : running_) {
    runOnLoop(task, "a posted function");
  }
  running_.clear();
}

void runOnLoop(UniqueFunction<void()>& task, std::string_view what) noexcept {
  try {
    task();
  } catch (const std::exception& error) {
    UNISONO_LOG(ERROR, "net", what, " failed on the event loop: ", error.what());
  } catch (...) {
    UNISONO_LOG(ERROR, "net", what, " failed on the event loop");
  }
}

}  // namespace unisono

#include "unisono/group/coalescing.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "group/group_state.hpp"

namespace unisono {

class BatchWork final : public Work {
 public:
  using Work::finish;
  BatchWork() : Work(OpType::COALESCED) {}

  /// What was started for the batch; this ends with it.
  void follow(const WorkPtr& started) UNISONO_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      started_ = started;
    }
    const WorkPtr self = shared_from_this();
    started->addCallback([self, started] {
      std::exception_ptr error = started->exception();
      static_cast<BatchWork&>(*self).finish(std::move(error), started->result());
    });
    wakeWaiters();
  }

 protected:
  void help(TimePoint until) override UNISONO_EXCLUDES(mutex_) {
    WorkPtr started;
    {
      const MutexLock lock(mutex_);
      started = started_;
    }
    UNISONO_CHECK(started != nullptr || isCompleted(),
                  "a wait inside a coalescing scope would never end: its operations are started "
                  "by end()");
    if (started) {
      started->waitUntilDone(until);
    }
  }

 private:
  Mutex mutex_;
  WorkPtr started_ UNISONO_GUARDED_BY(mutex_);
};

void GroupState::openBatch(DeviceType device) {
  checkNotDestroyed();
  const std::shared_ptr<Backend> backend = backendFor(device);
  if (!backend->capabilities().coalescing) {
    throw NotSupportedError(
        {.reason = Reason::USAGE,
         .what = str("Backend ", backend->name(), " does not implement startCoalescing")});
  }
  bool open = false;
  {
    const MutexLock lock(mutex);
    open = batch.has_value();
    if (!open) {
      batch = Batch{.device = device, .work = std::make_shared<BatchWork>()};
      // Relaxed: the batch itself is read under the lock.
      present.fetch_or(kCoalescing, std::memory_order_relaxed);
    }
  }
  if (open) {
    refuse("startCoalescing refused: another coalescing scope of this group is open",
           "end it first; scopes cannot be nested");
  }
}

WorkPtr GroupState::collect(CollectiveArgs& args, DeviceType device) {
  const MutexLock lock(mutex);
  if (!batch || batch->device != device) {
    return nullptr;
  }
  batch->calls.push_back(std::move(args));
  return batch->work;
}

Batch GroupState::takeBatch() {
  const MutexLock lock(mutex);
  UNISONO_CHECK(batch.has_value(), "there is no coalescing scope to end");
  Batch taken = std::move(*batch);
  batch.reset();
  present.fetch_and(~kCoalescing, std::memory_order_relaxed);
  return taken;
}

WorkPtr GroupState::endBatch() {
  Batch taken = takeBatch();
  if (taken.calls.empty()) {
    taken.work->finish();
    return taken.work;
  }
  const std::uint64_t number = takeNumber();
  for (CollectiveArgs& args : taken.calls) {
    args.seq = number;
  }
  try {
    checkNotDestroyed();
    const WorkPtr started = backendFor(taken.device)->startCoalesced(std::move(taken.calls));
    taken.work->follow(started);
  } catch (...) {
    tellFailed(OpType::COALESCED, number, std::current_exception());
    taken.work->finish(std::current_exception());
    throw;
  }
  tellStarted(OpType::COALESCED, number, taken.work, present.load(std::memory_order_relaxed));
  return taken.work;
}

void GroupState::dropBatch() noexcept {
  try {
    takeBatch().work->finish(std::make_exception_ptr(
        UsageError({.reason = Reason::USAGE,
                    .what = "a coalescing scope was left without end(): nothing was started"})));
  } catch (const std::exception& error) {
    UNISONO_LOG(ERROR, "group", "a coalescing scope could not be left: ", error.what());
  }
}

CoalescingScope::CoalescingScope(std::shared_ptr<GroupState> group) : group_(std::move(group)) {}
CoalescingScope::CoalescingScope(CoalescingScope&&) noexcept = default;

CoalescingScope::~CoalescingScope() {
  if (group_) {
    group_->dropBatch();
  }
}

WorkPtr CoalescingScope::end() {
  UNISONO_CHECK(group_ != nullptr, "a coalescing scope was ended twice");
  return std::exchange(group_, nullptr)->endBatch();
}

}  // namespace unisono

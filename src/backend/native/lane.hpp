// Lane: the operations of a group, one after the other, in the order in which they were called.
//
// Whoever needs a result drives: a call that is going to wait runs on its own thread when the lane
// is idle, and a thread that waits runs what is queued before it. A worker runs what nobody waits
// for. Handing a small operation to another thread would take longer than the operation. But who
// waits for a limited time drives only what is over by then: an operation cannot be left half done.
//
// At most one thread drives at a time; it holds no lock while it runs an operation. Callbacks run
// after the driver has given up its role, so they may themselves submit and wait.
//
// Thread safety: everything from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "base/thread.hpp"

namespace unisono {

/// Something to run in a lane.
class LaneItem {
 public:
  using Callbacks = std::vector<std::function<void()>>;

  virtual ~LaneItem() = default;
  /// Runs and ends it; returns what to call once the lane is free again. Must not throw.
  virtual Callbacks run() noexcept = 0;
  /// Ends it without running it.
  virtual Callbacks fail(std::exception_ptr reason) noexcept = 0;
  virtual bool isOver() noexcept = 0;
  /// How long it may run at most.
  virtual Milliseconds timeout() const noexcept = 0;
};

class Lane {
 public:
  explicit Lane(std::string name) : name_(std::move(name)) {}
  /// end()s.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Workers keep `owner`, of which this is a part, as long as they run. Before anything is pushed.
  void belongTo(const std::shared_ptr<void>& owner) { owner_ = owner; }

  /// Takes the driver's role if the lane is idle; then an operation may be run right here, and
  /// release() gives the role back.
  bool tryTake() noexcept {
    bool idle = false;
    return queued_.load(std::memory_order_relaxed) == 0 && open_.load(std::memory_order_relaxed) &&
           busy_.compare_exchange_strong(idle, true, std::memory_order_seq_cst);
  }
  void release() noexcept {
    // Sequentially consistent, as is the order in push(): either we see what was queued, or who
    // queued it sees that nobody drives.
    busy_.store(false, std::memory_order_seq_cst);
    if (queued_.load(std::memory_order_seq_cst) != 0) [[unlikely]] {
      callWorker();
    }
  }

  /// Queues `item`; it runs even if nobody waits for it.
  void push(std::shared_ptr<LaneItem> item) UNISONO_EXCLUDES(mutex_);

  /// Drives until `item` is over or `until` has passed. Returns early when another thread drives,
  /// and when what is queued could last longer than that: then a worker drives.
  void help(LaneItem& item, std::chrono::steady_clock::time_point until) UNISONO_EXCLUDES(mutex_);

  /// Returns when nothing is queued or running any more; false when `deadline` has passed before.
  /// Does not drive: an operation may last longer than that. Not `interruptible`: throws nothing.
  [[nodiscard]] bool drain(Deadline deadline, bool interruptible = true) UNISONO_EXCLUDES(mutex_);

  /// How many are queued, without the one that runs.
  std::size_t queued() const noexcept { return queued_.load(std::memory_order_relaxed); }

  /// Fails what is queued, and what is pushed from now on, with `reason`.
  void close(std::exception_ptr reason) UNISONO_EXCLUDES(mutex_);

  /// Closes it, and returns when its workers have ended, with what they were running; except on
  /// one of them, in a callback: then they are left to end by themselves.
  void end() UNISONO_EXCLUDES(mutex_);

 private:
  /// Whether one is going to come.
  bool callWorker() noexcept UNISONO_EXCLUDES(mutex_);
  bool isInTime(const LaneItem& item, std::chrono::steady_clock::time_point until)
      UNISONO_EXCLUDES(mutex_);
  void work() UNISONO_EXCLUDES(mutex_);
  std::shared_ptr<LaneItem> takeFront() UNISONO_EXCLUDES(mutex_);
  void driveOne() UNISONO_EXCLUDES(mutex_);

  const std::string name_;
  const ForkGuard madeIn_;
  std::weak_ptr<void> owner_;
  std::atomic<bool> open_{true};        // close() was not called yet
  std::atomic<bool> busy_{false};       // somebody drives
  std::atomic<std::size_t> queued_{0};  // size of queue_

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<LaneItem>> queue_ UNISONO_GUARDED_BY(mutex_);
  std::exception_ptr closed_ UNISONO_GUARDED_BY(mutex_);
  int idleWorkers_ UNISONO_GUARDED_BY(mutex_) = 0;
  bool ending_ UNISONO_GUARDED_BY(mutex_) = false;
  std::vector<Thread> workers_ UNISONO_GUARDED_BY(mutex_);
};

}  // namespace unisono

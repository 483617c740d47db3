#include "backend/native/lane.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/wait.hpp"

namespace unisono {
namespace {

// Workers beyond the first are for callbacks that wait for each other.
constexpr std::size_t kMostWorkers = 8;

void runAll(const LaneItem::Callbacks& callbacks) noexcept {
  for (const auto& callback : callbacks) {
    callback();  // they log what they throw
  }
}

}  // namespace

Lane::~Lane() {
  if (!madeIn_.inChild()) {  // there the threads, and who may hold the lock, are the parent's
    end();
  }
}

void Lane::end() {
  close(std::make_exception_ptr(
      DistBackendError({.reason = Reason::SHUTDOWN, .what = "the group is being destroyed"})));
  std::vector<Thread> workers;
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    changed_.notifyAll();
    workers.swap(workers_);
  }
  if (std::any_of(workers.begin(), workers.end(),
                  [](const Thread& worker) { return worker.isCurrent(); })) {
    for (Thread& worker : workers) {
      worker.detach();  // what they use is theirs: they keep the owner
    }
  }
  workers.clear();  // joins
}

void Lane::push(std::shared_ptr<LaneItem> item) {
  std::exception_ptr closed;
  {
    const MutexLock lock(mutex_);
    closed = closed_;
    if (!closed) {
      queue_.push_back(item);
      queued_.fetch_add(1, std::memory_order_seq_cst);
    }
  }
  if (closed) {
    runAll(item->fail(closed));
  } else if (!busy_.load(std::memory_order_seq_cst)) {
    callWorker();
  }
}

bool Lane::callWorker() noexcept {
  const MutexLock lock(mutex_);
  if (idleWorkers_ > 0) {
    changed_.notifyAll();
    return true;
  }
  if (ending_ || workers_.size() >= kMostWorkers) {
    return false;
  }
  try {
    workers_.emplace_back(name_, [this, owner = owner_.lock()] { work(); });
    ++idleWorkers_;  // counted here: it must not be started twice before it comes up
    return true;
  } catch (const std::exception& error) {
    UNISONO_LOG(WARN, "backend", "no thread for asynchronous operations: ", error.what());
    return false;
  }
}

void Lane::work() {
  for (;;) {
    {
      const MutexLock lock(mutex_);
      CondWaitable on(changed_, mutex_);
      static_cast<void>(waitUntil(
          [this]() UNISONO_NO_ANALYSIS {
            return ending_ || (!queue_.empty() && !busy_.load(std::memory_order_seq_cst));
          },
          {.deadline = Deadline::never(), .subject = {}}, on));
      if (ending_) {
        return;
      }
      bool idle = false;
      if (!busy_.compare_exchange_strong(idle, true, std::memory_order_seq_cst)) {
        continue;
      }
      --idleWorkers_;
    }
    driveOne();
    const MutexLock lock(mutex_);
    ++idleWorkers_;
  }
}

std::shared_ptr<LaneItem> Lane::takeFront() {
  const MutexLock lock(mutex_);
  if (queue_.empty()) {
    return nullptr;
  }
  std::shared_ptr<LaneItem> front = std::move(queue_.front());
  queue_.pop_front();
  queued_.fetch_sub(1, std::memory_order_seq_cst);
  return front;
}

/// Runs the oldest item. Whoever calls it has taken the role; it is given back here.
void Lane::driveOne() {
  const std::shared_ptr<LaneItem> front = takeFront();
  LaneItem::Callbacks callbacks;
  if (front) {
    callbacks = front->run();
  }
  release();
  runAll(callbacks);
}

void Lane::help(LaneItem& item, std::chrono::steady_clock::time_point until) {
  while (!item.isOver() && std::chrono::steady_clock::now() < until) {
    bool idle = false;
    // Late is better than never: without a worker, who waits has to drive.
    if (busy_.load(std::memory_order_relaxed) || (!isInTime(item, until) && callWorker()) ||
        !busy_.compare_exchange_strong(idle, true, std::memory_order_seq_cst)) {
      return;
    }
    driveOne();
  }
}

/// Whether all up to `item` are over by `until` even if no peer ever comes.
bool Lane::isInTime(const LaneItem& item, TimePoint until) {
  if (until == TimePoint::max()) {
    return true;
  }
  Milliseconds most{0};
  const MutexLock lock(mutex_);
  for (const auto& each : queue_) {
    const Milliseconds more = std::max(each->timeout(), Milliseconds(0));
    most = more < Milliseconds::max() - most ? most + more : Milliseconds::max();
    if (each.get() == &item) {
      break;
    }
  }
  return Deadline::after(most).when() <= until;
}

bool Lane::drain(Deadline deadline, bool interruptible) {
  TimerWaitable timer{Milliseconds(1)};
  return waitUntil(
      [this] {
        // In this order: who takes an item is busy before the item is no longer queued.
        return queued_.load(std::memory_order_seq_cst) == 0 &&
               !busy_.load(std::memory_order_seq_cst);
      },
      {.deadline = deadline, .subject = {}, .interruptible = interruptible}, timer);
}

void Lane::close(std::exception_ptr reason) {
  open_.store(false, std::memory_order_relaxed);
  std::deque<std::shared_ptr<LaneItem>> dropped;
  {
    const MutexLock lock(mutex_);
    if (!closed_) {
      closed_ = reason;
    }
    dropped.swap(queue_);
    queued_.store(0, std::memory_order_seq_cst);
  }
  for (const auto& item : dropped) {
    runAll(item->fail(reason));
  }
}

}  // namespace unisono

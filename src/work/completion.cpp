#include "work/completion.hpp"

#include "base/log.hpp"
#include "base/wait.hpp"

namespace unisono::detail {

void runCallbacks(Callbacks callbacks) noexcept {
  for (const std::function<void()>& callback : callbacks) {
    try {
      callback();
    } catch (const std::exception& error) {
      UNISONO_LOG(ERROR, "work", "a callback failed and was dropped: ", error.what());
    } catch (...) {
      UNISONO_LOG(ERROR, "work", "a callback failed and was dropped: it threw no std::exception");
    }
  }
}

/// Lets a waiting thread help before it sleeps. A wake between the two is counted, and so is not
/// slept through.
class Completion::Sleeper final : public Waitable {
 public:
  Sleeper(Completion& owner, Deadline deadline, const Help& help)
      : owner_(owner), deadline_(deadline), help_(help), condition_(owner.changed_, owner.mutex_) {}

  void sleep(Milliseconds most) override UNISONO_NO_ANALYSIS {
    const std::uint64_t seen = owner_.wakes_;
    if (help_) {
      condition_.runUnlocked([this] { help_(deadline_.when()); });
      if (owner_.isDone() || owner_.wakes_ != seen || owner_.cancels_ > 0) {
        return;
      }
    }
    condition_.sleep(std::min(most, deadline_.remaining()));
  }
  void runUnlocked(const std::function<void()>& action) override { condition_.runUnlocked(action); }

 private:
  Completion& owner_;
  const Deadline deadline_;
  const Help& help_;
  CondWaitable condition_;
};

bool Completion::complete(std::exception_ptr error, TensorList value, Callbacks* left) {
  madeIn_.check("Work");
  const MutexLock lock(mutex_);
  if (isDone()) {
    return false;
  }
  if (started_ != TimePoint{}) {
    finished_ = systemClock().now();
  }
  const State end = error ? State::FAILED : State::SUCCEEDED;
  error_ = std::move(error);
  value_ = std::move(value);
  help_ = nullptr;
  left->swap(callbacks_);
  // Release: the outputs, written by this thread, are seen by whoever sees the end.
  state_.store(end, std::memory_order_release);
  changed_.notifyAll();
  return true;
}

std::exception_ptr Completion::error() const {
  if (!hasFailed()) {
    return nullptr;
  }
  const MutexLock lock(mutex_);
  return error_;
}

void Completion::onDone(std::function<void()> callback) {
  if (!isDone()) {
    madeIn_.check("Work");
    const MutexLock lock(mutex_);
    if (!isDone()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  Callbacks now;
  now.push_back(std::move(callback));
  runCallbacks(std::move(now));
}

bool Completion::takeCancel() {
  if (cancels_ == 0) {
    return false;
  }
  --cancels_;
  return true;
}

Completion::Outcome Completion::await(Deadline deadline, const Subject& subject, const Help& help) {
  madeIn_.check("Work");
  bool cancelled = false;
  {
    const MutexLock lock(mutex_);
    cancelled = !isDone() && takeCancel();
  }
  // Once before waitUntil(), which reads the clock: most operations end right here.
  if (help && !cancelled && !isDone()) {
    help(deadline.when());
  }
  if (cancelled || isDone()) {
    return cancelled ? Outcome::CANCELLED : Outcome::DONE;
  }
  Sleeper sleeper(*this, deadline, help);
  const MutexLock lock(mutex_);
  const bool ready = waitUntil(
      [&]() UNISONO_NO_ANALYSIS {
        cancelled = !isDone() && takeCancel();
        return isDone() || cancelled;
      },
      {.deadline = deadline, .subject = subject}, sleeper);
  return cancelled ? Outcome::CANCELLED : ready ? Outcome::DONE : Outcome::EXPIRED;
}

void Completion::wake() {
  const MutexLock lock(mutex_);
  ++wakes_;
  changed_.notifyAll();
}

void Completion::cancelOne() {
  const MutexLock lock(mutex_);
  ++cancels_;
  changed_.notifyAll();
}

void Completion::setHelp(Help help) {
  const MutexLock lock(mutex_);
  if (!isDone()) {
    help_ = std::move(help);
  }
}

Completion::Help Completion::help() const {
  const MutexLock lock(mutex_);
  return help_;
}

void Completion::setStarted(TimePoint when) {
  const MutexLock lock(mutex_);
  started_ = when;
}

std::pair<TimePoint, TimePoint> Completion::times() const {
  const MutexLock lock(mutex_);
  return {started_, finished_};
}

}  // namespace unisono::detail

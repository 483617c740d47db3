// waitUntil: the only place that blocks.
//
// A wait has a deadline, watches for interrupts (Ctrl-C), and after UNISONO_HANG_WARN seconds
// says once what it waits for. What it sleeps on is a Waitable: a descriptor, a condition
// variable, or just time.
#pragma once

#include <functional>
#include <string>

#include "base/clock.hpp"
#include "base/mutex.hpp"

namespace unisono {

/// Something to sleep on. A sleep may end early or for no reason; waitUntil looks again.
class Waitable {
 public:
  virtual ~Waitable() = default;
  virtual void sleep(Milliseconds most) = 0;

  /// Runs `action`, somebody else's code, without the lock that sleep() gives back meanwhile.
  virtual void runUnlocked(const std::function<void()>& action) { action(); }
};

/// What a wait is about.
struct WaitContext {
  Deadline deadline;
  std::function<std::string()> subject;  // "store key '/a' at 10.0.0.1:29500"; for the hang notice
  const Clock& clock = systemClock();
  bool interruptible = true;  // false: for a short wait on a thread that uses this one's stack
};

/// Called at least every 50 ms by whoever waits, on the waiting thread, without the lock of a
/// CondWaitable; throws to end the wait (the Python binding raises KeyboardInterrupt here). Null
/// for none.
using InterruptHook = void (*)();
void setInterruptHook(InterruptHook hook) noexcept;

namespace detail {
/// The turns of one wait: how long to sleep, when to give notice, when to stop.
class WaitTurns {
 public:
  explicit WaitTurns(const WaitContext& context);
  /// Sleeps once; false when the deadline has passed by the end of it.
  bool next(Waitable& on);

 private:
  void giveNotice(Waitable& on);
  const WaitContext& context_;
  const TimePoint start_;
  Deadline notice_;
};
}  // namespace detail

/// True as soon as `ready()` is true; false when the deadline passes first. `ready` is looked
/// at before the first and after every sleep, the last time when the deadline has passed: a
/// deadline of now means one check, and what is ready in time is always seen.
template <typename Ready>
bool waitUntil(Ready&& ready, const WaitContext& context, Waitable& on) {
  const bool over = context.deadline.expired(context.clock);
  if (ready()) {
    return true;
  }
  if (over) {
    return false;
  }
  detail::WaitTurns turns(context);
  for (bool more = true; more;) {
    more = turns.next(on);
    if (ready()) {
      return true;
    }
  }
  return false;
}

/// Sleeps on a descriptor until `events` (POLLIN, POLLOUT) or an error.
class FdWaitable final : public Waitable {
 public:
  FdWaitable(int fd, short events) noexcept : fd_(fd), events_(events) {}
  void sleep(Milliseconds most) override;

 private:
  int fd_;
  short events_;
};

/// Sleeps on a condition variable; the caller holds `mutex`, also while `ready` is looked at.
class CondWaitable final : public Waitable {
 public:
  CondWaitable(CondVar& changed, Mutex& mutex) noexcept : changed_(changed), mutex_(mutex) {}
  void sleep(Milliseconds most) override UNISONO_NO_ANALYSIS { changed_.sleep(mutex_, most); }
  void runUnlocked(const std::function<void()>& action) override UNISONO_NO_ANALYSIS;

 private:
  CondVar& changed_;
  Mutex& mutex_;
};

/// Just time: for things that must be asked again and again, every `period`.
class TimerWaitable final : public Waitable {
 public:
  explicit TimerWaitable(Milliseconds period) noexcept : period_(period) {}
  void sleep(Milliseconds most) override;

 private:
  Milliseconds period_;
};

/// Sleeps `duration`, or less when the deadline is nearer; obeys interrupts.
void pauseFor(Milliseconds duration, const WaitContext& context);

}  // namespace unisono

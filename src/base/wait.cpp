#include "base/wait.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <poll.h>
#include <string>

#include "base/env.hpp"
#include "base/log.hpp"

namespace unisono {
namespace {

UNISONO_KNOB(double, kHangWarn, "UNISONO_HANG_WARN", "10",
             "seconds a call waits before one line says for what; 0 = never");

// How often a sleeping thread looks for interrupts.
constexpr Milliseconds kLongestSlice(50);

constinit std::atomic<InterruptHook> interruptHook{nullptr};

Deadline noticeDeadline(const WaitContext& context) {
  if (!context.subject) {
    return Deadline::never();
  }
  const double seconds = kHangWarn.value();
  if (seconds <= 0) {
    return Deadline::never();
  }
  return Deadline::after(fromSeconds(seconds), context.clock);
}

}  // namespace

void setInterruptHook(InterruptHook hook) noexcept {
  interruptHook.store(hook, std::memory_order_relaxed);
}

namespace detail {

WaitTurns::WaitTurns(const WaitContext& context)
    : context_(context), start_(context.clock.now()), notice_(noticeDeadline(context)) {}

bool WaitTurns::next(Waitable& on) {
  on.sleep(std::min(context_.deadline.remaining(context_.clock), kLongestSlice));
  if (const InterruptHook hook = interruptHook.load(std::memory_order_relaxed);
      hook != nullptr && context_.interruptible) {
    // A signal handler may call the very object that waits.
    on.runUnlocked(hook);
  }
  const bool more = !context_.deadline.expired(context_.clock);
  if (more && notice_.expired(context_.clock)) {
    giveNotice(on);
  }
  return more;
}

void WaitTurns::giveNotice(Waitable& on) {
  notice_ = Deadline::never();
  const auto waited =
      std::chrono::duration_cast<std::chrono::seconds>(elapsedSince(start_, context_.clock));
  const std::string left =
      context_.deadline.isNever()
          ? "and will go on without limit"
          : str("giving up in ", context_.deadline.remaining(context_.clock).count() / 1000, "s");
  const std::string text =
      str("waiting ", waited.count(), "s for ", context_.subject(), ", ", left);
  on.runUnlocked([&] { UNISONO_LOG(WARN, "wait", text); });
}

}  // namespace detail

void FdWaitable::sleep(Milliseconds most) {
  pollfd entry{.fd = fd_, .events = events_, .revents = 0};
  const Milliseconds slice = std::clamp(most, Milliseconds(0), kLongestSleep);
  // EINTR and errors count as an early end: the caller looks again, at the descriptor itself.
  static_cast<void>(::poll(&entry, 1, static_cast<int>(slice.count())));
}

void CondWaitable::runUnlocked(const std::function<void()>& action) {
  // Takes the lock again also when the action throws: whoever catches it believes to hold it.
  struct Relock {
    explicit Relock(Mutex& held) UNISONO_NO_ANALYSIS : mutex(held) { mutex.unlock(); }
    ~Relock() UNISONO_NO_ANALYSIS { mutex.lock(); }
    Mutex& mutex;
  };
  const Relock relock(mutex_);
  action();
}

void TimerWaitable::sleep(Milliseconds most) {
  const Milliseconds slice = std::min(most, period_);
  const timespec duration{.tv_sec = slice.count() / 1000,
                          .tv_nsec = (slice.count() % 1000) * 1'000'000};
  static_cast<void>(::nanosleep(&duration, nullptr));
}

void pauseFor(Milliseconds duration, const WaitContext& context) {
  TimerWaitable timer(duration);
  const WaitContext quiet{.deadline = context.deadline.within(duration, context.clock),
                          .subject = {},
                          .clock = context.clock};
  static_cast<void>(waitUntil([] { return false; }, quiet, timer));
}

}  // namespace unisono

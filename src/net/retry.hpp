// retryUntil: one wait made of attempts with growing pauses between them.
//
// As it is one wait, its deadline is one, its hang notice comes once, and Ctrl-C ends it.
#pragma once

#include "base/random.hpp"
#include "base/wait.hpp"

namespace unisono {

namespace detail {
/// Sleeps until the pause that was started is over.
class RetryPause final : public Waitable {
 public:
  void start(Milliseconds length) noexcept { until_ = Deadline::after(length); }
  bool isOver() const noexcept { return until_.expired(); }
  void sleep(Milliseconds most) override { TimerWaitable(until_.remaining()).sleep(most); }

 private:
  Deadline until_ = Deadline::at(TimePoint::min());
};
}  // namespace detail

/// Calls `attempt` until it returns true; false when the deadline passes first. The first
/// attempt is made in any case, no other begins after the deadline, and each may itself take
/// until then.
template <typename Attempt>
bool retryUntil(Attempt&& attempt, const WaitContext& context, Backoff& backoff) {
  detail::RetryPause pause;
  bool first = true;
  const auto next = [&] {
    if (!pause.isOver() || (!first && context.deadline.expired(context.clock))) {
      return false;
    }
    first = false;
    if (attempt()) {
      return true;
    }
    pause.start(backoff.next());
    return false;
  };
  return waitUntil(next, context, pause);
}

}  // namespace unisono

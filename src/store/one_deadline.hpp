// OneDeadline: what a call that is made of several calls on stores gives all of them in common.
#pragma once

#include "base/clock.hpp"

namespace unisono {

/// While it lives, timeout() of every store tells this thread no more than is left. Others may be
/// using the same store, so its timeout stays. Nests: the earlier one counts.
class OneDeadline {
 public:
  explicit OneDeadline(Deadline deadline) noexcept;
  explicit OneDeadline(Milliseconds timeout) noexcept : OneDeadline(Deadline::after(timeout)) {}
  ~OneDeadline();
  OneDeadline(const OneDeadline&) = delete;
  OneDeadline& operator=(const OneDeadline&) = delete;

  bool expired() const noexcept { return deadline_.expired(); }
  Milliseconds remaining() const noexcept { return deadline_.remaining(); }

 private:
  const Deadline deadline_;
  const Deadline* const outer_;
};

}  // namespace unisono

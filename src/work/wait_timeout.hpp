// WaitTimeout: the limit of one wait for a Work or a Future.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "unisono/base/error.hpp"
#include "unisono/work/options.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"

namespace unisono::detail {

class WaitTimeout {
 public:
  /// Throws UsageError when `timeout` is negative.
  explicit WaitTimeout(Milliseconds timeout)
      : timeout_(timeout),
        deadline_(timeout == kNoTimeout ? Deadline::never() : Deadline::after(timeout)) {
    UNISONO_CHECK(timeout >= kNoTimeout, "a wait cannot have the timeout ", timeout.count(),
                  "ms; 0 is without limit");
  }

  Deadline deadline() const noexcept { return deadline_; }

  /// The fragment in the sentence is matched by programs written for c10d.
  [[noreturn]] void fail(std::string_view op, std::optional<std::int64_t> seq) const {
    throw DistTimeoutError({.reason = Reason::TIMEOUT,
                            .what = str(op, ": Operation timed out! It has not ended within the ",
                                        timeout_.count(), "ms of this wait, and goes on"),
                            .hint = "wait again, or find out which rank has not called it",
                            .op = std::string(op),
                            .seq = seq,
                            .elapsed = elapsedSince(deadline_.when() - timeout_)});
  }

 private:
  const Milliseconds timeout_;
  const Deadline deadline_;
};

}  // namespace unisono::detail

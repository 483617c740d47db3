// Clock and Deadline: monotonic time that tests and simulations can replace.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>

namespace unisono {

using TimePoint = std::chrono::steady_clock::time_point;
using Milliseconds = std::chrono::milliseconds;

/// The longest single sleep asked of the system: its own limits are an int or a time in ns.
constexpr Milliseconds kLongestSleep = std::chrono::hours(1);

/// Where time comes from.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const noexcept = 0;
};

/// The machine's monotonic clock.
const Clock& systemClock() noexcept;

/// The moment at which a call gives up. Computed once, at the API; never re-added in a loop.
class Deadline {
 public:
  /// `timeout` from now; a timeout too long to represent means never, a negative one now.
  static Deadline after(Milliseconds timeout, const Clock& clock = systemClock()) noexcept {
    const TimePoint now = clock.now();
    const bool tooFar = timeout > std::chrono::duration_cast<Milliseconds>(TimePoint::max() - now);
    return Deadline(tooFar ? TimePoint::max() : now + std::max(timeout, Milliseconds(0)));
  }
  static Deadline at(TimePoint when) noexcept { return Deadline(when); }
  static Deadline never() noexcept { return Deadline(TimePoint::max()); }

  /// The same moment, or the one at which `ended` becomes true, if that is earlier: how an owner
  /// ends the waits of others. The flag must outlive all copies.
  Deadline orOnce(const std::atomic<bool>& ended) const noexcept {
    Deadline either = *this;
    either.ended_ = &ended;
    return either;
  }

  /// The same, but no later than `most` from now.
  Deadline within(Milliseconds most, const Clock& clock = systemClock()) const noexcept {
    Deadline nearer = *this;
    nearer.when_ = std::min(when_, after(most, clock).when_);
    return nearer;
  }

  bool isNever() const noexcept { return when_ == TimePoint::max(); }
  TimePoint when() const noexcept { return when_; }
  bool expired(const Clock& clock = systemClock()) const noexcept {
    return isEnded() || clock.now() >= when_;
  }

  /// Time left, rounded up so that a sleep of this length does not end early; 0 when expired.
  Milliseconds remaining(const Clock& clock = systemClock()) const noexcept {
    const TimePoint now = clock.now();
    return isEnded() || now >= when_ ? Milliseconds(0)
                                     : std::chrono::ceil<Milliseconds>(when_ - now);
  }

  friend bool operator<(Deadline a, Deadline b) noexcept { return a.when_ < b.when_; }

 private:
  explicit Deadline(TimePoint when) noexcept : when_(when) {}
  // Acquire: what the owner did before it ended the waits is seen by who was waiting.
  bool isEnded() const noexcept {
    return ended_ != nullptr && ended_->load(std::memory_order_acquire);
  }

  TimePoint when_;
  const std::atomic<bool>* ended_ = nullptr;
};

/// `seconds` rounded to milliseconds, no more than fit.
inline Milliseconds fromSeconds(double seconds) noexcept {
  const double milliseconds = seconds * 1000;
  if (std::abs(milliseconds) < static_cast<double>(Milliseconds::max().count())) {
    return Milliseconds(std::llround(milliseconds));
  }
  return milliseconds < 0 ? Milliseconds::min() : Milliseconds::max();
}

/// Milliseconds passed since `start`, for the elapsed= field of errors.
inline Milliseconds elapsedSince(TimePoint start, const Clock& clock = systemClock()) noexcept {
  return std::chrono::duration_cast<Milliseconds>(clock.now() - start);
}

}  // namespace unisono

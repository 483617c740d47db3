// Spin: looking again and again before going to sleep, where that pays off.
//
// To be woken takes 5 to 100 µs, so what comes within that time is better looked for. But a core
// that looks is one that others cannot use. A Spin therefore yields between two looks, hardly ever
// looks where nothing came of it, and never where there is only one core. Where strangers use the
// cores, yielding hands them a whole time slice, while who sleeps is woken before they go on: then
// it does not look at all for a while.
#pragma once

#include <algorithm>
#include <chrono>
#include <sched.h>
#include <utility>

#include "base/clock.hpp"

namespace unisono {

/// How long to spin: what UNISONO_SPIN_US says, else `usual`.
std::chrono::microseconds spinTime(std::chrono::microseconds usual);

class Spin {
 public:
  /// Looks for at most `most`, unless UNISONO_SPIN_US says otherwise.
  explicit Spin(std::chrono::microseconds most);

  /// Calls `found` until it returns true, or no longer than is worth it; whether it did.
  template <typename Found>
  bool until(Found found) {
    if (!isWorthTrying()) {
      return false;
    }
    TimePoint now = systemClock().now();
    const TimePoint end = now + most_;
    do {
      if (found()) {
        hit();
        return true;
      }
      ::sched_yield();
      const TimePoint before = std::exchange(now, systemClock().now());
      if (now - before > kStranger) {
        noteStranger(now);
        return found();
      }
    } while (now < end);
    miss();
    return false;
  }

 private:
  bool isWorthTrying() noexcept {
    return most_.count() > 0 && !sleepsAtOnce() && (credit_ > 0 || ++refused_ >= kProbe);
  }
  bool sleepsAtOnce() const noexcept {
    return sleepUntil_ != TimePoint() && systemClock().now() < sleepUntil_;
  }
  void noteStranger(TimePoint now) noexcept {
    stay_ = std::clamp(2 * stay_, kFirstStay, kLongestStay);
    sleepUntil_ = now + stay_;
  }
  void hit() noexcept {
    sleepUntil_ = TimePoint();
    stay_ -= stay_ / 64;
    credit_ = credit_ == 0 ? kMostCredit / 2 : credit_ < kMostCredit ? credit_ + 1 : credit_;
    refused_ = 0;
  }
  void miss() noexcept {
    credit_ -= credit_ > 0 ? 1 : 0;
    refused_ = 0;
  }

  // More misses than hits, and it is only tried once in a while.
  static constexpr int kMostCredit = 16;
  static constexpr int kProbe = 64;
  // Nothing of ours takes so long between two looks: it is a stranger's time slice.
  static constexpr std::chrono::microseconds kStranger{1000};
  static constexpr std::chrono::microseconds kFirstStay{20'000};
  static constexpr std::chrono::microseconds kLongestStay{1'000'000};

  std::chrono::microseconds most_;
  int credit_ = kMostCredit / 2;
  int refused_ = 0;
  TimePoint sleepUntil_;               // its epoch: no stranger in sight
  std::chrono::microseconds stay_{0};  // how long it slept at once the last time
};

}  // namespace unisono

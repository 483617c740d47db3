// Spin: looking again and again before going to sleep, where that pays off.
//
// To be woken takes 5 to 100 µs, so what comes within that time is better looked for. But a core
// that looks is one that others cannot use. A Spin therefore yields between two looks, hardly ever
// looks where nothing came of it, and never where there is only one core.
#pragma once

#include <chrono>
#include <sched.h>

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
    const TimePoint end = systemClock().now() + most_;
    do {
      if (found()) {
        hit();
        return true;
      }
      ::sched_yield();
    } while (systemClock().now() < end);
    miss();
    return false;
  }

 private:
  bool isWorthTrying() noexcept {
    return most_.count() > 0 && (credit_ > 0 || ++refused_ >= kProbe);
  }
  void hit() noexcept {
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

  std::chrono::microseconds most_;
  int credit_ = kMostCredit / 2;
  int refused_ = 0;
};

}  // namespace unisono

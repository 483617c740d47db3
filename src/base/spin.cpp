#include "base/spin.hpp"

#include <algorithm>

#include "base/env.hpp"

namespace unisono {
namespace {

UNISONO_KNOB(std::int64_t, kSpin, "UNISONO_SPIN_US", "-1",
             "microseconds of looking before a thread sleeps; 0 = none, -1 = what pays off");

constexpr std::int64_t kMostSpin = 10'000;

/// Cores that this process may run on.
int usableCores() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

Spin::Spin(std::chrono::microseconds most) : most_(most) {
  static const int cores = usableCores();
  const std::int64_t asked = kSpin.value();
  if (asked >= 0) {
    most_ = std::chrono::microseconds(std::min(asked, kMostSpin));
  } else if (cores < 2) {
    most_ = std::chrono::microseconds(0);
  }
}

}  // namespace unisono

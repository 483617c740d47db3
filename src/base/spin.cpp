#include "base/spin.hpp"

#include <algorithm>

#include "base/env.hpp"
#include "base/host.hpp"

namespace unisono {
namespace {

UNISONO_KNOB(std::int64_t, kSpin, "UNISONO_SPIN_US", "-1",
             "microseconds of looking before a thread sleeps; 0 = none, -1 = what pays off");

constexpr std::int64_t kMostSpin = 10'000;

}  // namespace

std::chrono::microseconds spinTime(std::chrono::microseconds usual) {
  const std::int64_t asked = kSpin.value();
  return asked < 0 ? usual : std::chrono::microseconds(std::min(asked, kMostSpin));
}

Spin::Spin(std::chrono::microseconds most) {
  static const int cores = usableCores();
  most_ = spinTime(cores < 2 ? std::chrono::microseconds(0) : most);
}

}  // namespace unisono

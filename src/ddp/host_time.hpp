// The time of the host, as logs have it.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.hpp"

namespace unisono::ddp {

/// Of the monotonic clock: only differences mean something.
inline std::int64_t hostNanoseconds() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             systemClock().now().time_since_epoch())
      .count();
}

}  // namespace unisono::ddp

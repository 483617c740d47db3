#include "base/clock.hpp"

namespace unisono {
namespace {

class SystemClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return std::chrono::steady_clock::now(); }
};

/// Keeps the clock from being destroyed: a thread may ask for the time until the process is gone.
union Immortal {
  constexpr Immortal() noexcept : clock() {}
  constexpr ~Immortal() {}
  SystemClock clock;
};

constinit const Immortal kSystemClock;

}  // namespace

const Clock& systemClock() noexcept {
  return kSystemClock.clock;
}

}  // namespace unisono

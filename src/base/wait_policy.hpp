// WaitPolicy: what a rank does before it sleeps, by how crowded its host is.
//
// Where every rank has a core, looking again costs nobody anything, and being woken costs thirty
// times what the message takes: spin. Where ranks outnumber cores, the one that is waited for
// needs the core: yield. Where strangers use the cores, yielding hands them a whole time slice:
// sleep at once, and try yielding again later.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/clock.hpp"

namespace unisono {

class WaitPolicy {
 public:
  /// For `ranks` ranks on `cores` cores. UNISONO_SPIN_US sets how long a roomy host spins.
  WaitPolicy(int ranks, int cores);

  bool isCrowded() const noexcept { return crowded_; }

  /// How many looks, a pause apart, come first.
  int spins() const noexcept { return spins_; }

  /// Gives the core away for a moment, as often as that pays off. True when `found` became true.
  template <typename Found>
  bool yieldUntil(Found& found) const {
    if (!crowded_ || sleepsAtOnce()) {
      return false;
    }
    const TimePoint start = systemClock().now();
    TimePoint before = start;
    for (int turn = 0; turn < mostYields_ || before - start < kYieldTime; ++turn) {
      yield();
      if (found()) {
        quiet();
        return true;
      }
      const TimePoint now = systemClock().now();
      if (now - before > kStranger) {
        noteStranger(now);
        return false;
      }
      before = now;
    }
    return false;
  }

 private:
  static constexpr std::chrono::microseconds kYieldTime{200};
  // No rank of ours keeps a core this long while others wait: it is a stranger's time slice.
  static constexpr std::chrono::microseconds kStranger{300};

  static void yield() noexcept;
  static bool sleepsAtOnce() noexcept;
  static void noteStranger(TimePoint now) noexcept;
  static void quiet() noexcept;

  const bool crowded_;
  const int spins_;
  const int mostYields_;
};

}  // namespace unisono

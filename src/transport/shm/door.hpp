// Door: where a rank sleeps until a peer rings.
//
// A word in shared memory: odd while somebody sleeps there. Who changes a word that others wait
// for does so with sequential consistency and then rings; who wants to sleep marks the door first
// and looks at the word once more. So either the ringer sees the mark, or the sleeper the change.
//
// Thread safety: one sleeper at a time; ring() from any thread of any process.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/clock.hpp"
#include "base/futex.hpp"

namespace unisono::shm {

using Door = std::atomic<std::uint32_t>;

inline void ring(Door& door) noexcept {
  std::uint32_t seen = door.load(std::memory_order_seq_cst);
  if ((seen & 1U) != 0 && door.compare_exchange_strong(seen, seen + 1, std::memory_order_seq_cst))
      [[unlikely]] {
    futexWakeAll(door);
  }
}

/// Sleeps behind a door, a few milliseconds at a time.
class DoorSleep {
 public:
  explicit DoorSleep(Door& door) noexcept : door_(door) {}
  ~DoorSleep() {
    if (armed_) {
      // Back to even, unless somebody has rung meanwhile.
      std::uint32_t seen = seen_;
      door_.compare_exchange_strong(seen, seen_ + 1, std::memory_order_relaxed);
    }
  }
  DoorSleep(const DoorSleep&) = delete;
  DoorSleep& operator=(const DoorSleep&) = delete;

  /// The first call only marks the door, since the caller has not looked since.
  void sleep(Milliseconds most) noexcept {
    if (armed_) {
      futexWait(door_, seen_, std::min(most, slice_));
      slice_ = std::min(slice_ + Milliseconds(1), kLongestSlice);
    }
    // Marked before the caller looks again: what comes after that look finds the mark and rings.
    seen_ = door_.fetch_or(1, std::memory_order_seq_cst) | 1U;
    armed_ = true;
  }

 private:
  static constexpr Milliseconds kLongestSlice{5};

  Door& door_;
  std::uint32_t seen_ = 0;
  bool armed_ = false;
  Milliseconds slice_{1};
};

}  // namespace unisono::shm

// One process of a soak: takes part in world after world, until one is its last.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/clock.hpp"
#include "support/watch.hpp"

namespace unisono::stress {

constexpr int kMostSlots = 5;

/// What happens to one world. All that is random comes from the seed and the round.
struct SoakPlan {
  enum class End : std::uint8_t { DESTROYED, KILLED, ABORTED };

  SoakPlan(std::uint64_t seed, int round);

  int rankOf(int slot) const { return (slot + shift) % size; }

  std::uint64_t seed;  // of its operations
  int size = 2;        // slots 0 to size - 1 take part
  int shift = 0;       // between slots and ranks
  int batches = 1;
  End end = End::DESTROYED;
  int victim = -1;  // the slot that is killed, or aborts
  int when = 0;     // before which batch
};

/// What a process has seen; in memory that it shares with the one that started it.
struct SoakReport {
  std::atomic<std::int64_t> round;  // it is in, or has ended
  std::atomic<std::int64_t> operations;
  std::atomic<std::int64_t> groups;
  std::atomic<std::int64_t> faults;  // that it was told of, by name
  std::atomic<std::int64_t> lateUs;  // the longest that took
  // After each round, when its groups are gone; the first few do not count.
  std::atomic<std::int64_t> samples;
  std::atomic<std::int64_t> moreDescriptors;  // the most beyond the first sample
  std::atomic<std::int64_t> moreMappings;
  std::atomic<std::int64_t> moreThreads;
  std::atomic<std::int64_t> firstKib;  // resident memory
  std::atomic<std::int64_t> lastKib;
  std::atomic<std::int64_t> firstBytes;  // allocated and not freed
  std::atomic<std::int64_t> lastBytes;
  /// Every `stride`th, so that there is room for any number; to be read when the process has ended.
  static constexpr std::size_t kMostKept = 8192;
  std::atomic<std::int64_t> stride;
  std::atomic<std::int64_t> kept;
  std::int32_t residentKib[kMostKept];
  std::int32_t liveBytes[kMostKept];
  char doing[256];
  char broken[1024];  // a promise; empty: none
};

/// Which rounds a process takes part in, and where it meets the others.
struct SoakLife {
  int slot = 0;
  std::uint64_t seed = 0;
  int firstRound = 0;
  std::string folder;
  const std::atomic<std::int64_t>* lastRound = nullptr;  // no world is made after it
};

/// Lives it; returns when it is over, or a promise is broken, which the report then says.
void live(const SoakLife& life, SoakReport& report);

}  // namespace unisono::stress

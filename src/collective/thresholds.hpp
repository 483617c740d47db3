// Thresholds: up to how many bytes which way to carry out an operation is the best.
//
// Data, measured once for a family of processors (docs/algorithms.md) and never changed at run
// time, so that results and times stay reproducible. UNISONO_ALGO overrides them: see tuning.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unisono {

/// From `from` bytes on, below `below`.
struct ByteRange {
  std::size_t from = SIZE_MAX;
  std::size_t below = SIZE_MAX;
  constexpr bool has(std::size_t bytes) const noexcept { return bytes >= from && bytes < below; }
};

/// The collectives that only move data.
enum class Movement : std::uint8_t { BROADCAST, ALL_GATHER, GATHER, SCATTER, ALL_TO_ALL };
inline constexpr std::size_t kMovements = 5;

/// Blocks of which size are read in the memory of who gives them.
struct PullRanges {
  ByteRange twoRanks;
  ByteRange more;
};

struct Thresholds {
  std::string_view family;                    // of processors
  std::size_t llTotal;                        // `ll`: bytes of all other ranks together, roomy
  std::size_t lastOf16;                       // `last`: crowded, up to 16 ranks
  std::size_t lastOfMore;                     // and of more
  std::size_t flatOfMore;                     // `flat`: roomy, of three ranks and more
  std::array<PullRanges, kMovements> pulled;  // by Movement
};

/// Those of the processor that this is.
const Thresholds& thresholds() noexcept;
/// Those of every family.
std::span<const Thresholds> allThresholds() noexcept;

/// A line for people: what is taken when.
struct ThresholdLine {
  std::string operation;
  std::string algorithm;
  std::string when;
};
/// All that `table` says.
std::vector<ThresholdLine> describe(const Thresholds& table);

}  // namespace unisono

// Histogram: how long things took, to within 2 %, in a fixed amount of memory.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace unisono::bench {

class Histogram {
 public:
  void add(std::uint64_t nanoseconds, std::uint64_t times = 1) {
    counts_[bucketOf(nanoseconds)] += times;
    total_ += times;
  }

  std::uint64_t total() const { return total_; }

  /// The time that the fraction `part` of all did not exceed; 0 when there are none.
  double quantile(double part) const {
    const auto rank = static_cast<std::uint64_t>(std::ceil(part * static_cast<double>(total_)));
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
      seen += counts_[bucket];
      if (total_ > 0 && seen >= rank) {
        return middleOf(bucket);
      }
    }
    return 0;
  }

 private:
  // Each power of two is cut into 64 buckets of equal width.
  static constexpr std::size_t kCutBits = 6;
  static constexpr std::uint64_t kCuts = 1U << kCutBits;

  static std::size_t bucketOf(std::uint64_t value) {
    if (value < kCuts) {
      return value;
    }
    const auto shift = static_cast<std::size_t>(std::bit_width(value)) - 1 - kCutBits;
    return shift * kCuts + (value >> shift);
  }
  static double middleOf(std::size_t bucket) {
    if (bucket < 2 * kCuts) {
      return static_cast<double>(bucket);
    }
    const std::size_t shift = bucket / kCuts - 1;
    const auto low = static_cast<double>(kCuts + bucket % kCuts);
    return (low + 0.5) * static_cast<double>(std::uint64_t{1} << shift);
  }

  std::array<std::uint64_t, (64 - kCutBits + 1) * kCuts> counts_{};
  std::uint64_t total_ = 0;
};

}  // namespace unisono::bench

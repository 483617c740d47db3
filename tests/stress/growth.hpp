// Growth: whether something that goes up and down becomes more in the long run.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace unisono::stress {

/// A line through the second half of some samples; in the first one things settle.
struct Growth {
  double perSample = 0;
  double error = 0;  // the standard error of that

  /// Whether it is beyond doubt more than `allowed` per sample.
  bool exceeds(double allowed) const { return perSample - kSure * error > allowed; }

  static constexpr double kSure = 4;
};

/// Neighbouring samples are not independent of each other (an allocator takes what it needs in
/// steps), so the line goes through the medians of a few long stretches.
inline Growth growthOf(std::span<const std::int32_t> samples) {
  constexpr std::size_t kStretches = 8;
  const std::span<const std::int32_t> half = samples.subspan(samples.size() / 2);
  const std::size_t length = half.size() / kStretches;
  if (length == 0) {
    return {};
  }
  std::vector<double> medians;
  for (std::size_t i = 0; i < kStretches; ++i) {
    const auto stretch = half.subspan(i * length, length);
    std::vector<std::int32_t> sorted(stretch.begin(), stretch.end());
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(length / 2),
                     sorted.end());
    medians.push_back(sorted[length / 2]);
  }
  constexpr double kMiddle = (kStretches - 1) / 2.0;
  double spread = 0;
  double product = 0;
  double mean = 0;
  for (std::size_t i = 0; i < kStretches; ++i) {
    const double x = static_cast<double>(i) - kMiddle;
    spread += x * x;
    product += x * medians[i];
    mean += medians[i] / kStretches;
  }
  const double slope = product / spread;
  double rest = 0;
  for (std::size_t i = 0; i < kStretches; ++i) {
    const double off = medians[i] - mean - slope * (static_cast<double>(i) - kMiddle);
    rest += off * off;
  }
  const auto samplesEach = static_cast<double>(length);
  return {.perSample = slope / samplesEach,
          .error = std::sqrt(rest / (kStretches - 2) / spread) / samplesEach};
}

}  // namespace unisono::stress

// PeriodicAverage: parameters become their average now and then.
//
//   hooks::PeriodicAverage average(world, {.period = 10});
//   for (…) {
//     … a step of the optimizer …
//     average.step({Tensor(weights), Tensor(bias)});
//   }
//
// For ranks that do not average every gradient, see post_local_sgd.hpp.
//
// Thread safety: for one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "unisono/base/api.hpp"
#include "unisono/group/group.hpp"

namespace unisono::hooks {

struct PeriodicAverageOptions {
  /// Steps from one average to the next.
  std::int64_t period = 1;
  /// Steps before the first.
  std::int64_t warmupSteps = 0;
};

class UNISONO_API PeriodicAverage {
 public:
  /// Throws UsageError for a period below 1, or fewer than no steps.
  PeriodicAverage(Group group, PeriodicAverageOptions options);

  /// Counts a step; whether the parameters were averaged, in place, after it. Called on all ranks,
  /// with parameters of the same types and sizes. Throws as operations do, when all have ended.
  bool step(const std::vector<Tensor>& params);

  /// Steps so far. A training that goes on from where it was stored says so, on all ranks alike.
  std::int64_t steps() const noexcept { return steps_; }
  void setSteps(std::int64_t steps) noexcept { steps_ = steps; }

 private:
  const Group group_;
  const PeriodicAverageOptions options_;
  std::int64_t steps_ = 0;
};

}  // namespace unisono::hooks

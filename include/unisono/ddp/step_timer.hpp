// StepTimer: when the parts of a step began and ended.
//
// A value that is told the time: it has no clock, so that a copy of it says later what was so.
//
// Thread safety: none, as of any value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "unisono/base/api.hpp"

namespace unisono {

/// In the order in which they come in a step whose gradients are all reduced at its end; where
/// reducing overlaps computing, communication starts before computing ends.
enum class StepEvent : std::uint8_t {
  FORWARD_START,
  BACKWARD_COMPUTE_START,
  BACKWARD_COMPUTE_END,
  BACKWARD_COMM_START,
  BACKWARD_COMM_END,
};

class UNISONO_API StepTimer {
 public:
  /// Nanoseconds of the host's monotonic clock. What was recorded of an event before is forgotten.
  void record(StepEvent event, std::int64_t nanoseconds) noexcept;

  /// Nothing when it was never recorded.
  std::optional<std::int64_t> timestamp(StepEvent event) const noexcept;

  /// From one to the other. Nothing when one was never recorded, or the second came first: then it
  /// is of an earlier step.
  std::optional<std::int64_t> difference(StepEvent from, StepEvent to) const noexcept;

 private:
  static constexpr std::size_t kEvents = 5;
  std::array<std::optional<std::int64_t>, kEvents> times_;
};

}  // namespace unisono

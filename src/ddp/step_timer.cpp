#include "unisono/ddp/step_timer.hpp"

namespace unisono {

void StepTimer::record(StepEvent event, std::int64_t nanoseconds) noexcept {
  times_[static_cast<std::size_t>(event)] = nanoseconds;
}

std::optional<std::int64_t> StepTimer::timestamp(StepEvent event) const noexcept {
  return times_[static_cast<std::size_t>(event)];
}

std::optional<std::int64_t> StepTimer::difference(StepEvent from, StepEvent to) const noexcept {
  const std::optional<std::int64_t> begin = timestamp(from);
  const std::optional<std::int64_t> end = timestamp(to);
  if (!begin || !end || *end < *begin) {
    return std::nullopt;
  }
  return *end - *begin;
}

}  // namespace unisono

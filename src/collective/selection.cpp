#include "collective/selection.hpp"

#include <array>

#include "base/env.hpp"
#include "base/str.hpp"

namespace unisono {
namespace {

UNISONO_KNOB(std::string, kAlgo, "UNISONO_ALGO", "",
             "takes one algorithm wherever it can be used, as in allreduce=flat; empty = the best");

constexpr std::array<AllreduceAlgorithm, 4> kAllreduce = {{
    {"ll", "one line carries data and flag; everybody reads everybody",
     [](const Situation& s) { return s.bytes <= mostOfLl(s.elementSize); }, allreduceLl},
    {"last", "the last to come reduces for all",
     [](const Situation& s) { return s.bytes <= shm::kSmallSlot; }, allreduceLast},
    {"flat", "everybody copies in and reads everybody", [](const Situation&) { return true; },
     allreduceFlat},
    {"slices", "everybody reduces one share for all", [](const Situation&) { return true; },
     allreduceSlices},
}};
constexpr const AllreduceAlgorithm& kLl = kAllreduce[0];
constexpr const AllreduceAlgorithm& kLast = kAllreduce[1];
constexpr const AllreduceAlgorithm& kFlat = kAllreduce[2];
constexpr const AllreduceAlgorithm& kSlices = kAllreduce[3];

/// What differs between processors. On AMD's a line that another core has written is dear to write
/// again, so only a few pay off; the value for Intel's has not been measured with this code.
struct Thresholds {
  std::size_t llTotal;  // bytes of all other ranks together up to which lines are best
};
constexpr Thresholds kIntel = {4096};
constexpr Thresholds kOthers = {4 * shm::LlLine::kPayload};

const Thresholds& thresholds() noexcept {
#if defined(__x86_64__)
  static const bool intel = __builtin_cpu_is("intel") != 0;
  return intel ? kIntel : kOthers;
#else
  return kOthers;
#endif
}

constexpr std::size_t kLastUpTo16Ranks = shm::kSmallSlot;
constexpr std::size_t kLastAbove = 1024;

const AllreduceAlgorithm* algorithmNamed(std::string_view name) {
  for (const AllreduceAlgorithm& row : kAllreduce) {
    if (row.name == name) {
      return &row;
    }
  }
  return nullptr;
}

}  // namespace

std::span<const AllreduceAlgorithm> allreduceAlgorithms() noexcept {
  return kAllreduce;
}

bool linesAreBest(const Situation& s, std::size_t givers) noexcept {
  return !s.crowded && s.bytes * givers <= thresholds().llTotal && kLl.applies(s);
}

Selector::Selector() : settings_(kAlgo.value()) {
  constexpr std::string_view kPrefix = "allreduce=";
  if (settings_.empty()) {
    return;
  }
  forced_ = settings_.starts_with(kPrefix)
                ? algorithmNamed(std::string_view(settings_).substr(kPrefix.size()))
                : nullptr;
  if (forced_ == nullptr) {
    throw UsageError(
        {.reason = Reason::CONFIG,
         .what = str("UNISONO_ALGO is '", printable(settings_), "', which names no algorithm"),
         .hint = "use allreduce=ll, allreduce=last, allreduce=flat or "
                 "allreduce=slices"});
  }
}

const AllreduceAlgorithm& Selector::allreduce(const Situation& s) const {
  if (forced_ != nullptr && forced_->applies(s)) {
    return *forced_;
  }
  if (s.crowded) {
    const std::size_t most = s.ranks <= 16 ? kLastUpTo16Ranks : kLastAbove;
    return s.bytes <= most ? kLast : kSlices;
  }
  const std::size_t others = static_cast<std::size_t>(s.ranks - 1) * s.bytes;
  if (others <= thresholds().llTotal && kLl.applies(s)) {
    return kLl;
  }
  return s.ranks <= 2 || s.bytes <= shm::kSmallSlot ? kFlat : kSlices;
}

}  // namespace unisono

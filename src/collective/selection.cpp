#include "collective/selection.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/env.hpp"
#include "base/str.hpp"
#include "collective/blocks.hpp"
#include "collective/reduce_scatter.hpp"

namespace unisono {
namespace {

UNISONO_KNOB(
    std::string, kAlgo, "UNISONO_ALGO", "",
    "takes one algorithm wherever it can be used, as in allreduce=flat,blocks=slots; empty = "
    "the best");

constexpr std::array<AllreduceAlgorithm, 4> kAllreduce = {{
    {1, "ll", "one line carries data and flag; everybody reads everybody",
     [](const Situation& s) { return s.bytes <= mostOfLl(s.elementSize); }, allreduceLl},
    {2, "last", "the last to come reduces for all",
     [](const Situation& s) { return s.bytes <= shm::kSmallSlot; }, allreduceLast},
    {3, "flat", "everybody copies in and reads everybody", [](const Situation&) { return true; },
     allreduceFlat},
    {4, "slices", "everybody reduces one share for all", [](const Situation&) { return true; },
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

/// Blocks of which size are read in the memory of who gives them. Not where one gives and one
/// takes: by slots both cores copy at the same time. Not where several take the same block: it is
/// copied into slots once for all of them, which costs less than that all go to the kernel.
/// Measured with up to four ranks on two cores only.
struct PullRange {
  std::size_t from = SIZE_MAX;
  std::size_t below = SIZE_MAX;
  bool has(std::size_t bytes) const noexcept { return bytes >= from && bytes < below; }
};
struct PullRanges {
  PullRange twoRanks;
  PullRange more;
};
constexpr PullRange kNever;
constexpr PullRanges kPulled[] = {
    {kNever, kNever},                                   // broadcast
    {{32U << 10U, 1U << 20U}, kNever},                  // all_gather
    {kNever, kNever},                                   // gather
    {kNever, {64U << 10U, SIZE_MAX}},                   // scatter
    {{32U << 10U, 4U << 20U}, {64U << 10U, SIZE_MAX}},  // all_to_all
};

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

std::size_t mostDealtByLines(int ranks, bool crowded) noexcept {
  const auto others = static_cast<std::size_t>(std::max(ranks - 1, 1));
  return crowded ? 0 : std::min(thresholds().llTotal / others, mostOfDealtLines(ranks));
}

bool reduceScatterByLines(const Situation& s) noexcept {
  const auto others = static_cast<std::size_t>(s.ranks - 1);
  return !s.crowded && s.bytes * others <= thresholds().llTotal &&
         s.bytes <= mostOfReduceScatterLines(s.ranks, s.elementSize);
}

Selector::Selector() : settings_(kAlgo.value()) {
  for (std::string_view rest = settings_; !rest.empty();) {
    const std::string_view setting = rest.substr(0, rest.find(','));
    force(setting);
    rest.remove_prefix(std::min(rest.size(), setting.size() + 1));
  }
}

void Selector::force(std::string_view setting) {
  constexpr std::string_view kAllreducePrefix = "allreduce=";
  if (setting == "blocks=slots" || setting == "blocks=pull") {
    blocks_ = setting == "blocks=pull" ? Blocks::PULL : Blocks::SLOTS;
    return;
  }
  forced_ = setting.starts_with(kAllreducePrefix)
                ? algorithmNamed(setting.substr(kAllreducePrefix.size()))
                : nullptr;
  if (forced_ == nullptr) {
    throw UsageError(
        {.reason = Reason::CONFIG,
         .what = str("UNISONO_ALGO is '", printable(settings_), "', which names no algorithm"),
         .hint = "use allreduce=ll, allreduce=last, allreduce=flat or allreduce=slices, and "
                 "blocks=slots or blocks=pull, with a comma between"});
  }
}

bool Selector::pulls(Movement movement, std::size_t bytes, int ranks) const noexcept {
  switch (blocks_) {
    case Blocks::SLOTS:
      return false;
    case Blocks::PULL:
      return bytes > 0;
    case Blocks::AS_IS_BEST:
      break;
  }
  const PullRanges& ranges = kPulled[static_cast<std::size_t>(movement)];
  return (ranks <= 2 ? ranges.twoRanks : ranges.more).has(bytes);
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

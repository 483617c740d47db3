#include "collective/selection.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/env.hpp"
#include "base/str.hpp"
#include "collective/blocks.hpp"
#include "collective/reduce_scatter.hpp"
#include "collective/tuning.hpp"

namespace unisono {
namespace {

UNISONO_KNOB(
    std::string, kAlgo, "UNISONO_ALGO", "",
    "takes one algorithm wherever it can be used, as in allreduce=flat,blocks=slots, or for so "
    "many bytes, as in allreduce=flat:1k-64k; by TCP as in allreduce=tcp/ring; empty = the best");

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
  const std::optional<Tuning> tuning = Tuning::parse(settings_);
  if (!tuning) {
    refuse();
  }
  for (const TunedRange& range : tuning->allreduce) {
    const AllreduceAlgorithm* algorithm = algorithmNamed(range.algorithm);
    if (algorithm == nullptr) {
      refuse();
    }
    forced_.push_back({algorithm, range.bytes});
  }
  for (const TunedRange& range : tuning->blocks) {
    if (range.algorithm != "pull" && range.algorithm != "slots") {
      refuse();
    }
    blocks_.push_back({range.algorithm == "pull", range.bytes});
  }
  for (const TunedLinks& each : tuning->links) {
    if (!links_.force(each)) {
      refuse();
    }
  }
}

void Selector::refuse() const {
  std::vector<std::string> between;
  for (const links::AlgorithmName& each : links::LinkSelector::names()) {
    between.push_back(str(each.operation, "=tcp/", each.name));
  }
  throw UsageError(
      {.reason = Reason::CONFIG,
       .what = str("UNISONO_ALGO is '", printable(settings_), "', which names no algorithm"),
       .hint = str("use allreduce=ll, allreduce=last, allreduce=flat or allreduce=slices, and "
                   "blocks=slots or blocks=pull, with a comma between; or for so many bytes only, "
                   "as in allreduce=flat:1k-64k; by TCP ",
                   join(between, ", "))});
}

bool Selector::pulls(Movement movement, std::size_t bytes, int ranks) const noexcept {
  for (const auto& [pull, range] : blocks_) {
    if (range.has(bytes)) {
      return pull && bytes > 0;
    }
  }
  const PullRanges& ranges = thresholds().pulled[static_cast<std::size_t>(movement)];
  return (ranks <= 2 ? ranges.twoRanks : ranges.more).has(bytes);
}

const AllreduceAlgorithm& Selector::allreduce(const Situation& s) const {
  for (const auto& [algorithm, range] : forced_) {
    if (range.has(s.bytes) && algorithm->applies(s)) {
      return *algorithm;
    }
  }
  const Thresholds& best = thresholds();
  if (s.crowded) {
    const std::size_t most =
        std::min(s.ranks <= 16 ? best.lastOf16 : best.lastOfMore, shm::kSmallSlot);
    return s.bytes <= most ? kLast : kSlices;
  }
  const std::size_t others = static_cast<std::size_t>(s.ranks - 1) * s.bytes;
  if (others <= best.llTotal && kLl.applies(s)) {
    return kLl;
  }
  return s.ranks <= 2 || s.bytes <= best.flatOfMore ? kFlat : kSlices;
}

}  // namespace unisono

#include "fault/judge.hpp"

#include <algorithm>

namespace unisono::fault {
namespace {

// The promise, which scripts/prove.sh judges by; and what is allowed on machines that run tests,
// and have other things to do.
constexpr std::int64_t kNextCallNs = 1'000'000;
constexpr std::int64_t kNextCallInTestsNs = 500'000'000;

}  // namespace

void judge(Crew& crew, int rank, const Verdict& verdict) {
  crew.awaitError(rank);
  Report& seen = crew.report(rank);
  const auto isOneOf = [&](std::int32_t reason) {
    return std::any_of(verdict.reasons.begin(), verdict.reasons.end(),
                       [&](Reason each) { return static_cast<std::int32_t>(each) == reason; });
  };
  require(isOneOf(seen.reason.load()), "rank ", rank, " was told something else: ", seen.text);
  require(seen.kind.load() == verdict.kind, "rank ", rank, " threw another type: ", seen.text);
  require(seen.culprits.load() == bitsOf(verdict.culprits), "rank ", rank,
          " blames others: ", seen.text);
  require(std::string(seen.text).find(verdict.text) != std::string::npos, "rank ", rank,
          " does not say '", verdict.text, "': ", seen.text);
  if (!verdict.hasGroup) {
    return;
  }
  require(seen.nextReason.load() == seen.reason.load(), "the next call of rank ", rank,
          " did not fail for the same reason, but ", seen.nextReason.load(), ": ", seen.text);
  const std::int64_t bound = crew.isThorough() ? kNextCallNs : kNextCallInTestsNs;
  require(seen.nextNs.load() < bound, "the next calls of rank ", rank, " failed after ",
          seen.nextNs.load() / 1000, " us at best");
}

std::int64_t lastTold(Crew& crew, const std::vector<int>& ranks, std::int64_t since) {
  std::int64_t last = 0;
  for (const int rank : ranks) {
    crew.awaitError(rank);
    const Report& seen = crew.report(rank);
    last = std::max(last, seen.endedNs.load() - std::max(since, seen.calledNs.load()));
  }
  return last;
}

std::vector<int> ranksBut(int size, const std::vector<int>& others) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank) {
    if (std::find(others.begin(), others.end(), rank) == others.end()) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

}  // namespace unisono::fault

#include "collective/links/selection.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <iterator>
#include <string>

#include "base/str.hpp"

namespace unisono::links {
namespace {

constexpr Algorithm<AllreduceFn> kAllreduce[] = {
    {1, "doubling", "recursive doubling: fewest flights", allreduceDoubling},
    {2, "halving", "recursive halving and doubling: few flights, few bytes", allreduceHalving},
    {3, "ring", "fewest bytes, and only neighbours talk", allreduceRing},
    {15, "gathered", "everybody gets all: fewest flights of any number of ranks, many bytes",
     allreduceGathered},
};
constexpr Algorithm<ReduceFn> kReduce[] = {
    {4, "binomial", "a tree: one message of each rank", reduceBinomial},
    {5, "ring", "shares go around, then to the root", reduceRing},
};
constexpr Algorithm<BroadcastFn> kBroadcast[] = {
    {6, "binomial", "a tree: fewest flights", broadcastBinomial},
    {7, "scattered", "a share for each, which then go along a chain", broadcastScattered},
};
constexpr Algorithm<AllgatherFn> kAllgather[] = {
    {8, "bruck", "fewest flights, one more copy", allgatherBruck},
    {9, "ring", "no copies, and only neighbours talk", allgatherRing},
};
constexpr Algorithm<ReduceScatterFn> kReduceScatter[] = {
    {10, "direct", "blocks go to their owners, all at once", reduceScatterDirect},
    {11, "pairwise", "blocks go to their owners, one after the other", reduceScatterPairwise},
    {12, "ring", "only neighbours talk; half types are rounded in every step", reduceScatterRing},
};
constexpr Algorithm<AlltoallFn> kAlltoall[] = {
    {13, "direct", "blocks go to all at once", alltoallDirect},
    {14, "pairwise", "blocks go to one after the other", alltoallPairwise},
};

/// The first row that has room for both is taken.
template <typename Fn>
struct Row {
  int mostRanks;
  std::size_t mostBytes;
  const Algorithm<Fn>& algorithm;
};
constexpr int kAnyRanks = INT_MAX;
constexpr std::size_t kAnyBytes = SIZE_MAX;
// Measured over the loopback device: docs/algorithms.md.
constexpr std::size_t kSmall = 64U << 10U;    // flights count
constexpr std::size_t kTree = 256U << 10U;    // where shares would need as many flights as ranks
constexpr std::size_t kMedium = 512U << 10U;  // both count; above, only bytes do
constexpr std::size_t kLarge = 16U << 20U;    // flights do not count any more

// Guests cost two flights. What saves them sends everybody's contribution to everybody.
constexpr Row<AllreduceFn> kAllreduceRows[] = {
    {8, 16U << 10U, kAllreduce[3]},      {32, 2U << 10U, kAllreduce[3]},
    {kAnyRanks, 64, kAllreduce[3]},      {kAnyRanks, kSmall, kAllreduce[0]},
    {3, kAnyBytes, kAllreduce[2]},  // a guest costs more than its flights
    {kAnyRanks, kMedium, kAllreduce[1]}, {kAnyRanks, kAnyBytes, kAllreduce[2]},
};
// As many bytes as around a ring, in fewer flights.
constexpr Row<AllreduceFn> kAllreduceRowsOfPowersOfTwo[] = {
    {2, kTree, kAllreduce[0]},  // no more bytes than the others
    {kAnyRanks, kSmall, kAllreduce[0]},
    {kAnyRanks, kLarge, kAllreduce[1]},
    {kAnyRanks, kAnyBytes, kAllreduce[2]},
};
constexpr Row<ReduceFn> kReduceRows[] = {
    {2, kAnyBytes, kReduce[0]},  // one message is the least there can be
    {kAnyRanks, kTree, kReduce[0]},
    {kAnyRanks, kAnyBytes, kReduce[1]},
};
constexpr Row<BroadcastFn> kBroadcastRows[] = {
    {2, kAnyBytes, kBroadcast[0]},
    {kAnyRanks, kTree, kBroadcast[0]},
    {kAnyRanks, kAnyBytes, kBroadcast[1]},
};
constexpr Row<AllgatherFn> kAllgatherRows[] = {
    {2, kAnyBytes, kAllgather[1]},  // one flight, and no copy
    {kAnyRanks, kSmall, kAllgather[0]},
    {kAnyRanks, kAnyBytes, kAllgather[1]},
};
// Never the ring by itself: it sends no fewer bytes, and rounds half types in every step.
constexpr Row<ReduceScatterFn> kReduceScatterRows[] = {
    {kAnyRanks, kSmall, kReduceScatter[0]},
    {kAnyRanks, kAnyBytes, kReduceScatter[1]},
};
constexpr Row<AlltoallFn> kAlltoallRows[] = {
    {kAnyRanks, kSmall, kAlltoall[0]},
    {kAnyRanks, kAnyBytes, kAlltoall[1]},
};

template <typename Fn, std::size_t kCount, typename Forced>
const Algorithm<Fn>& firstFor(const Row<Fn> (&rows)[kCount], const std::vector<Forced>& forced,
                              std::size_t bytes, int ranks) noexcept {
  for (const Forced& each : forced) {
    if (each.bytes.has(bytes)) {
      return *each.algorithm;
    }
  }
  for (const Row<Fn>& row : rows) {
    if (ranks <= row.mostRanks && bytes <= row.mostBytes) {
      return row.algorithm;
    }
  }
  return rows[kCount - 1].algorithm;
}

template <typename Fn, std::size_t kCount>
void addNames(std::vector<AlgorithmName>& names, std::string_view operation,
              const Algorithm<Fn> (&table)[kCount]) {
  for (const Algorithm<Fn>& each : table) {
    names.push_back({operation, each.name, each.summary});
  }
}

template <typename Fn, std::size_t kCount>
void addLines(std::vector<ThresholdLine>& lines, std::string_view operation,
              const Row<Fn> (&rows)[kCount], std::string_view which = {}) {
  for (const Row<Fn>& row : rows) {
    std::vector<std::string> conditions;
    if (row.mostRanks == 2) {
      conditions.emplace_back("two ranks");
    } else if (row.mostRanks != kAnyRanks) {
      conditions.push_back(str("up to ", row.mostRanks, " ranks"));
    } else if (!which.empty()) {
      conditions.emplace_back(which);
    }
    if (row.mostBytes != kAnyBytes) {
      conditions.push_back(str("up to ", formatBytes(row.mostBytes)));
    }
    lines.push_back({std::string(operation), str("tcp/", row.algorithm.name),
                     conditions.empty() ? "otherwise" : join(conditions, ", ")});
  }
}

}  // namespace

std::vector<ThresholdLine> LinkSelector::describe() {
  std::vector<ThresholdLine> lines;
  addLines(lines, "all_reduce", kAllreduceRowsOfPowersOfTwo, "2, 4, 8, … ranks");
  addLines(lines, "all_reduce", kAllreduceRows);
  addLines(lines, "reduce", kReduceRows);
  addLines(lines, "broadcast", kBroadcastRows);
  addLines(lines, "all_gather", kAllgatherRows);
  addLines(lines, "reduce_scatter", kReduceScatterRows);
  addLines(lines, "all_to_all", kAlltoallRows);
  return lines;
}

std::span<const AlgorithmName> LinkSelector::names() noexcept {
  static const auto* const kNames = [] {
    auto* names = new std::vector<AlgorithmName>();
    addNames(*names, "allreduce", kAllreduce);
    addNames(*names, "reduce", kReduce);
    addNames(*names, "broadcast", kBroadcast);
    addNames(*names, "allgather", kAllgather);
    addNames(*names, "reducescatter", kReduceScatter);
    addNames(*names, "alltoall", kAlltoall);
    return names;
  }();
  return *kNames;
}

/// Whether `setting` is one of `operation` and names one of `table`, which then goes into `list`.
template <typename Fn, std::size_t kCount>
bool LinkSelector::add(std::vector<Forced<Fn>>& list, std::string_view operation,
                       const Algorithm<Fn> (&table)[kCount], const TunedLinks& setting) {
  const auto* const named =
      std::find_if(std::begin(table), std::end(table),
                   [&](const Algorithm<Fn>& each) { return each.name == setting.range.algorithm; });
  if (setting.operation != operation || named == std::end(table)) {
    return false;
  }
  list.push_back({named, setting.range.bytes});
  return true;
}

bool LinkSelector::force(const TunedLinks& setting) {
  return add(allreduce_, "allreduce", kAllreduce, setting) ||
         add(reduce_, "reduce", kReduce, setting) ||
         add(broadcast_, "broadcast", kBroadcast, setting) ||
         add(allgather_, "allgather", kAllgather, setting) ||
         add(reduceScatter_, "reducescatter", kReduceScatter, setting) ||
         add(alltoall_, "alltoall", kAlltoall, setting);
}

const Algorithm<AllreduceFn>& LinkSelector::allreduce(std::size_t bytes, int ranks) const noexcept {
  return std::has_single_bit(static_cast<unsigned>(ranks))
             ? firstFor(kAllreduceRowsOfPowersOfTwo, allreduce_, bytes, ranks)
             : firstFor(kAllreduceRows, allreduce_, bytes, ranks);
}
const Algorithm<ReduceFn>& LinkSelector::reduce(std::size_t bytes, int ranks) const noexcept {
  return firstFor(kReduceRows, reduce_, bytes, ranks);
}
const Algorithm<BroadcastFn>& LinkSelector::broadcast(std::size_t bytes, int ranks) const noexcept {
  return firstFor(kBroadcastRows, broadcast_, bytes, ranks);
}
const Algorithm<AllgatherFn>& LinkSelector::allgather(std::size_t bytes, int ranks) const noexcept {
  return firstFor(kAllgatherRows, allgather_, bytes, ranks);
}
const Algorithm<ReduceScatterFn>& LinkSelector::reduceScatter(std::size_t bytes,
                                                              int ranks) const noexcept {
  return firstFor(kReduceScatterRows, reduceScatter_, bytes, ranks);
}
const Algorithm<AlltoallFn>& LinkSelector::alltoall(std::size_t bytes, int ranks) const noexcept {
  return firstFor(kAlltoallRows, alltoall_, bytes, ranks);
}

}  // namespace unisono::links

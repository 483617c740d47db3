// The comparison of collectives: every library, again and again, in turns.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/collective/contest.hpp"

namespace unisono::bench {

struct CollectivePlan {
  std::vector<std::string> ops = {"all_reduce"};
  std::vector<std::uint64_t> sizes = {4,          64,         1U << 10U,   4U << 10U,
                                      16U << 10U, 64U << 10U, 256U << 10U, 1U << 20U,
                                      4U << 20U,  16U << 20U, 64U << 20U};
  int ranks = 2;
  std::size_t rounds = 5;
};

/// The figures of one library for one operation and size: medians over the rounds.
struct CollectiveRow {
  std::string peer;
  std::string op;
  std::uint64_t size = 0;
  double p10 = 0;  // microseconds
  double p50 = 0;
  double p99 = 0;
  double algorithmGBs = 0;  // size over time
  double busGBs = 0;        // what goes over the slowest link, by the usual formula
  bool isWrong = false;
  bool isNoisy = false;  // copying memory took more than 15 % longer in one round than in another
  /// Time of this one over that of the first, of the same round: median, least, most.
  std::optional<double> ratio = std::nullopt;
  double ratioLeast = 0;
  double ratioMost = 0;
};

/// The name of an operation on the command line; nothing for another text.
std::optional<Op> opCalled(const std::string& name);

using Tell = std::function<void(const std::string& op, std::uint64_t size)>;

/// Measures in interleaved rounds, in an order that rotates; the first contestant is what the
/// others are compared with. `tell` is called before each operation and size.
std::vector<CollectiveRow> compareCollectives(Contest& contest, const CollectivePlan& plan,
                                              const Tell& tell);

}  // namespace unisono::bench

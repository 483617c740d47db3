// The comparison: every server, again and again, in turns.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/store/peers.hpp"

namespace unisono::bench {

struct Plan {
  std::vector<std::string> verbs = {"add", "get"};
  std::vector<std::size_t> clients = {1, 16, 128};
  std::vector<std::size_t> depths = {1};
  std::size_t valueSize = 16;
  std::size_t rounds = 5;
  Milliseconds duration{500};     // of one server in one round
  Milliseconds patience{20'000};  // with a server that does not answer
};

/// The figures of one server in one situation: medians over the rounds.
struct Row {
  std::string peer;
  std::string verb;
  std::size_t clients = 0;
  std::size_t depth = 0;
  LoadFigures figures;
  /// Rate of the first server over the rate of this one, of the same round: the median, the
  /// smallest and the largest. Not for the first itself.
  std::optional<double> ratio;
  double ratioLeast = 0;
  double ratioMost = 0;
};

/// Told before every measurement: how many are done, of how many.
using Progress = std::function<void(std::size_t done, std::size_t all)>;

/// Measures `peers` in interleaved rounds, in an order that rotates; the first is what the others
/// are compared with.
std::vector<Row> compare(const std::vector<Peer>& peers, const Plan& plan,
                         const Progress& progress);

double median(std::vector<double> values);

}  // namespace unisono::bench

// What `unisono bench` can be told, in the words of its command line.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/collective/comparison.hpp"
#include "manner.hpp"

namespace unisono::cli {

struct BenchOptions : Manner {
  bench::CollectivePlan plan;
  std::string op = "all_reduce";
  std::uint64_t least = 8;
  std::uint64_t most = 128U << 20U;
  std::uint64_t factor = 2;
  std::uint64_t step = 0;
  std::vector<std::string> compareWith;
  std::string python;
  std::string transport = "auto";
  std::string algo;
  std::optional<double> timeout;  // seconds of a task
  bool isRoaming = false;
  std::string jsonFile;
  std::string plot;
  std::string baseline;
  double failOver = 5;
  bool asRank = false;  // one of those that another bench has started
};

/// Adds OP and all options to the command.
void takeBenchLine(CLI::App& command, BenchOptions& options);

/// The operation of this name, or all of them, as the comparison calls them. Throws UsageError when
/// there is none.
std::vector<std::string> opsCalled(const std::string& name);

/// Those whom --compare names, as the comparison calls them.
std::vector<std::string> peersCalled(const std::vector<std::string>& names);

/// A peer of the comparison, under the name that it has on the command line.
std::string outsideName(const std::string& peer);

}  // namespace unisono::cli

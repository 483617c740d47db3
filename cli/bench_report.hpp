// What `unisono bench` has measured, for people and for programs, and beside an earlier run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/collective/comparison.hpp"
#include "bench/environment.hpp"

namespace unisono::cli {

/// What was measured, and under which circumstances.
struct BenchReport {
  bench::CollectivePlan plan;
  bench::Facts environment;
  std::vector<bench::Absentee> missing;
  std::vector<bench::CollectiveRow> rows;
};

/// One document: {"schema": "unisono-bench/1", …}.
std::string benchJson(const BenchReport& report);

/// For people: without `quiet` the circumstances first.
void printBench(const BenchReport& report, bool quiet);

/// An earlier run, from the file that --json made of it.
class Baseline {
 public:
  /// Throws FileFailure, or UsageError when the file is something else.
  explicit Baseline(const std::string& file);

  /// A line for each row of unisono that takes more than `percent` longer than it did then. Throws
  /// UsageError when the two have no row in common.
  std::vector<std::string> slower(const BenchReport& report, double percent) const;

 private:
  const std::string file_;
  std::map<std::string, double> times_;  // p50 by row
};

}  // namespace unisono::cli

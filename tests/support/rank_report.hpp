// RankReport: what a rank that is a process of its own tells the test's process.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/error.hpp"

namespace unisono::test {

struct RankReport {
  /// An expectation that was not met.
  struct Failure {
    std::string file;
    int line = 0;
    std::string text;
  };

  std::optional<ErrorFacts> error;   // unisono's
  std::optional<std::string> other;  // what() of any other exception
  std::vector<Failure> failures;

  static RankReport ofCurrentException();
  /// Of a rank that does not report any more, as `how` says.
  static RankReport ofDeath(int rank, const std::string& how);

  /// What was thrown, as it was for unisono's errors; null for nothing.
  std::exception_ptr thrown() const;
};

std::string encodeReports(const std::vector<RankReport>& reports);
std::vector<RankReport> decodeReports(std::string_view bytes);

}  // namespace unisono::test

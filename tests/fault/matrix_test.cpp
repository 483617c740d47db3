// Every row of the fault matrix, a few rounds each; for longer: scripts/prove.sh faults.
#include <gtest/gtest.h>

#include "fault/row.hpp"

namespace unisono::fault {

/// How gtest shows a row.
static void PrintTo(const Row& row, std::ostream* out) {
  *out << row.fault;
}

namespace {

// Tests share their machine with others: bounds are judged by scripts/prove.sh faults, and here
// what comes later than ten times the bound has not come.
constexpr int kPatience = 10;

class FaultTest : public ::testing::TestWithParam<Row> {};

TEST_P(FaultTest, EndsAsPromised) {
  const Row& row = GetParam();
  const Outcome outcome = runRow(row, row.rounds, 20261116, false);
  if (!outcome.skipped.empty()) {
    GTEST_SKIP() << outcome.skipped;
  }
  ASSERT_EQ(outcome.broken, "");
  if (outcome.tookMs.empty()) {
    return;
  }
  std::printf("%s (%s): worst %.1f ms, bound %lld ms\n", row.id, nameOf(row.way),
              outcome.tookMs.back(), static_cast<long long>((row.after + row.slack).count()));
  EXPECT_GE(outcome.tookMs.front(), static_cast<double>(row.after.count()));
  if (row.slack.count() > 0) {
    EXPECT_LE(outcome.tookMs.back(),
              static_cast<double>((row.after + kPatience * row.slack).count()));
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, FaultTest, ::testing::ValuesIn(allRows()), [](const auto& test) {
  const Row& row = test.param;
  return str(row.id, "_", row.name, row.way == Way::SHM ? "" : str("_", nameOf(row.way)));
});

}  // namespace
}  // namespace unisono::fault

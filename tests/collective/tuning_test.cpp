#include "collective/tuning.hpp"

#include <gmock/gmock.h>

#include "collective/selection.hpp"
#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::ScopedEnv;
using test::textOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// The algorithm for so many bytes, as UNISONO_ALGO=`text` says.
std::string chosen(const char* text, std::size_t bytes, int ranks = 2) {
  const ScopedEnv algo("UNISONO_ALGO", text);
  return std::string(
      Selector()
          .allreduce({.bytes = bytes, .elementSize = 4, .ranks = ranks, .crowded = false})
          .name);
}

TEST(TuningTest, AnAlgorithmMayBeTakenForSomeSizesOnly) {
  constexpr const char* kText = "all_reduce=last:0-1k,slices:64k-1m;blocks=pull:4k-inf";
  EXPECT_EQ(chosen(kText, 1023), "last");
  EXPECT_EQ(chosen(kText, 1024), chosen("", 1024));
  EXPECT_EQ(chosen(kText, 64 << 10), "slices");
  EXPECT_EQ(chosen(kText, 1 << 20), "flat");
  const ScopedEnv algo("UNISONO_ALGO", kText);
  EXPECT_FALSE(Selector().pulls(Movement::BROADCAST, 4095, 2));
  EXPECT_TRUE(Selector().pulls(Movement::BROADCAST, 4096, 2));
}

TEST(TuningTest, TheFirstThatCanBeUsedCounts) {
  EXPECT_EQ(chosen("allreduce=ll,flat", 100'000, 4), "flat") << "lines have no room for so much";
  EXPECT_EQ(chosen("allreduce=slices:0-inf,flat", 8, 2), "slices");
}

TEST(TuningTest, WhatIsNotUnderstoodIsRefused) {
  for (const char* wrong :
       {"allreduce=flat:", "allreduce=flat:1k", "allreduce=flat:1k-", "allreduce=flat:2k-1k",
        "allreduce=flat:1t-2t", "allreduce=flat:0-99999999999999999999", "flat:0-1k",
        "allreduce=flat:0-17179869184g", "reduce=flat", "blocks=slots:-1-4"}) {
    const ScopedEnv algo("UNISONO_ALGO", wrong);
    EXPECT_THAT(textOf<UsageError>([] { const Selector selector; }),
                AllOf(HasSubstr("[CONFIG]"), HasSubstr(wrong), HasSubstr("flat:1k-64k")));
  }
}

TEST(ThresholdsTest, AreOfAFamilyThatIsInTheTable) {
  const auto& all = allThresholds();
  EXPECT_TRUE(std::any_of(all.begin(), all.end(),
                          [](const Thresholds& row) { return row.family == thresholds().family; }));
}

TEST(ThresholdsTest, DescribeWhatIsTaken) {
  Thresholds table = thresholds();
  table.llTotal = 224;
  table.flatOfMore = 8192;
  table.pulled[static_cast<std::size_t>(Movement::SCATTER)].more = {.from = 1 << 20};
  std::string text;
  for (const ThresholdLine& line : describe(table)) {
    text += line.operation + " " + line.algorithm + " " + line.when + "\n";
  }

  EXPECT_THAT(text, AllOf(HasSubstr("all_reduce ll roomy, up to 224 bytes"),
                          HasSubstr("all_reduce flat roomy, two ranks, or up to 8 KiB of more"),
                          HasSubstr("scatter pull two ranks: never; more: from 1 MiB")));
}

}  // namespace
}  // namespace unisono

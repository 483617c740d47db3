#include "collective/selection.hpp"

#include <gtest/gtest.h>

#include "collective/blocks.hpp"
#include "collective/reduce_scatter.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

/// What is taken where nobody says otherwise, for bytes.
class SelectionTest : public ::testing::Test {
 protected:
  static std::string_view chosen(std::size_t bytes, int ranks, bool crowded) {
    const test::ScopedEnv algo("UNISONO_ALGO", "");
    return Selector()
        .allreduce({.bytes = bytes, .elementSize = 1, .ranks = ranks, .crowded = crowded})
        .name;
  }
  const Thresholds& table_ = thresholds();
};

TEST_F(SelectionTest, TwoRanksWithACoreEachTakeLinesAndThenRead) {
  EXPECT_EQ(chosen(1, 2, false), "ll");
  EXPECT_EQ(chosen(table_.llTotal, 2, false), "ll");
  EXPECT_EQ(chosen(table_.llTotal + 1, 2, false), "flat");
  EXPECT_EQ(chosen(1U << 30U, 2, false), "flat");
}

TEST_F(SelectionTest, MoreRanksCountTheBytesOfAllOthersAndShareTheWork) {
  const std::size_t most = table_.llTotal / 4;
  EXPECT_EQ(chosen(most, 5, false), "ll");
  EXPECT_EQ(chosen(most + 1, 5, false), "flat");
  EXPECT_EQ(chosen(table_.flatOfMore, 5, false), "flat");
  EXPECT_EQ(chosen(table_.flatOfMore + 1, 5, false), "slices");
  EXPECT_EQ(chosen(1U << 30U, 128, false), "slices");
}

TEST_F(SelectionTest, OnFewCoresTheLastOneReducesWhatIsSmall) {
  EXPECT_EQ(chosen(1, 2, true), "last");
  EXPECT_EQ(chosen(table_.lastOf16, 16, true), "last");
  EXPECT_EQ(chosen(table_.lastOf16 + 1, 16, true), "slices");
  EXPECT_EQ(chosen(table_.lastOfMore, 17, true), "last");
  EXPECT_EQ(chosen(table_.lastOfMore + 1, 17, true), "slices");
}

TEST_F(SelectionTest, WhatIsTakenCanDoIt) {
  const Selector selector;
  for (const bool crowded : {false, true}) {
    for (int ranks = 1; ranks <= 130; ranks += ranks < 20 ? 1 : 37) {
      for (const std::size_t width : {1U, 2U, 8U, 16U}) {
        for (std::size_t bytes = width; bytes <= 1U << 20U; bytes *= 2) {
          const Situation situation{bytes, width, ranks, crowded};
          EXPECT_TRUE(selector.allreduce(situation).applies(situation))
              << bytes << " bytes of " << ranks;
        }
      }
    }
  }
}

TEST_F(SelectionTest, LinesAreForFewBytesOfRanksWithACoreEach) {
  const Situation few{.bytes = 8, .elementSize = 8, .ranks = 3, .crowded = false};
  Situation many = few;
  many.bytes = table_.llTotal + 8;
  Situation crowded = few;
  crowded.crowded = true;
  EXPECT_TRUE(linesAreBest(few, 2));
  EXPECT_FALSE(linesAreBest(few, table_.llTotal / 8 + 1)) << "of all givers together";
  EXPECT_FALSE(linesAreBest(many, 1));
  EXPECT_FALSE(linesAreBest(crowded, 1));
  EXPECT_TRUE(reduceScatterByLines(few));
  EXPECT_FALSE(reduceScatterByLines(many));
  EXPECT_FALSE(reduceScatterByLines(crowded));
}

TEST_F(SelectionTest, NoMoreIsDealtByLinesThanTheyHaveRoomFor) {
  for (int ranks = 1; ranks <= 1024; ++ranks) {
    EXPECT_EQ(mostDealtByLines(ranks, true), 0U);
    EXPECT_LE(mostDealtByLines(ranks, false), mostOfDealtLines(ranks));
    EXPECT_LE(mostDealtByLines(ranks, false) * static_cast<std::size_t>(ranks - 1), table_.llTotal);
  }
}

TEST_F(SelectionTest, NothingIsNotPulled) {
  const test::ScopedEnv algo("UNISONO_ALGO", "blocks=pull");
  EXPECT_FALSE(Selector().pulls(Movement::ALL_TO_ALL, 0, 2));
  EXPECT_TRUE(Selector().pulls(Movement::ALL_TO_ALL, 1, 2));
}

}  // namespace
}  // namespace unisono

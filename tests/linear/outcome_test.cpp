#include "linear/outcome.hpp"

#include <gmock/gmock.h>

namespace unisono::linear {
namespace {

TEST(LinearOutcomeTest, IsASuccessOnlyWhenAllWasShown) {
  EXPECT_EQ(exitCode({.asked = 3, .histories = 3}), 0);
  EXPECT_EQ(exitCode({.asked = 3, .histories = 3, .undecided = 1}), 3);
  EXPECT_EQ(exitCode({.asked = 3, .histories = 2, .undecided = 1, .wrong = true}), 1);
}

TEST(LinearOutcomeTest, TooFewHistoriesAreASuccessOnlyForWhomLimitedTheTime) {
  EXPECT_EQ(exitCode({.asked = 3, .histories = 2, .timeIsUp = true}), 3);
  EXPECT_EQ(exitCode({.asked = 3, .histories = 2, .timeIsUp = true, .timeWasGiven = true}), 0);
  EXPECT_EQ(exitCode({.asked = 3, .timeIsUp = true, .timeWasGiven = true}), 3);
}

TEST(LinearOutcomeTest, SaysWhatWasNotShown) {
  EXPECT_EQ(missing({.asked = 3, .histories = 3}), "");
  EXPECT_EQ(missing({.asked = 3, .histories = 2, .undecided = 1, .timeIsUp = true}),
            "1 of 2 histories stayed undecided; the time ended after 2 of 3 histories");
}

}  // namespace
}  // namespace unisono::linear

#include "unisono/base/debug_level.hpp"

#include <cstdlib>
#include <gmock/gmock.h>
#include <string>

#include "unisono/base/error.hpp"

#include "support/support.hpp"

namespace unisono {
namespace {

using test::FreshProcess;
using test::ScopedEnv;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// The level that the environment of the test names with these two.
DebugLevel levelWith(const std::string& own, const std::string& torchs) {
  const ScopedEnv first("UNISONO_DEBUG", own);
  const ScopedEnv second("TORCH_DISTRIBUTED_DEBUG", torchs);
  setDebugLevelFromEnvironment();
  return debugLevel();
}

TEST(DebugLevelTest, IsThatOfTheEnvironmentInAnyCase) {
  EXPECT_EQ(levelWith("", "OFF"), DebugLevel::OFF);
  EXPECT_EQ(levelWith("", "info"), DebugLevel::INFO);
  EXPECT_EQ(levelWith("", "Detail"), DebugLevel::DETAIL);
  EXPECT_EQ(levelWith("detail", "OFF"), DebugLevel::DETAIL);
  EXPECT_EQ(levelWith("off", "DETAIL"), DebugLevel::OFF);
}

TEST(DebugLevelTest, IsWhatWasSetLast) {
  for (const DebugLevel level : {DebugLevel::INFO, DebugLevel::DETAIL, DebugLevel::OFF}) {
    setDebugLevel(level);
    EXPECT_EQ(debugLevel(), level);
  }
}

TEST(DebugLevelTest, AWordThatIsNoLevelIsRefusedAndChangesNothing) {
  setDebugLevel(DebugLevel::INFO);

  EXPECT_THAT([] { levelWith("", "loud"); },
              ThrowsMessage<UsageError>(AllOf(
                  HasSubstr("The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL."),
                  HasSubstr("It is 'loud'"))));
  EXPECT_THAT([] { levelWith("", ""); },  // as in c10d
              ThrowsMessage<UsageError>(HasSubstr("must be OFF, INFO, or DETAIL.")));
  EXPECT_THAT([] { levelWith("2", "OFF"); },
              ThrowsMessage<UsageError>(
                  HasSubstr("The value of UNISONO_DEBUG must be OFF, INFO, or DETAIL.")));
  EXPECT_EQ(debugLevel(), DebugLevel::INFO);
}

TEST(DebugLevelTest, TheFirstQuestionReadsTheEnvironment) {
  const FreshProcess fresh;
  const ScopedEnv torchs("TORCH_DISTRIBUTED_DEBUG", "DETAIL");

  EXPECT_EXIT(std::exit(debugLevel() == DebugLevel::DETAIL ? 0 : 1), ::testing::ExitedWithCode(0),
              "");
}

TEST(DebugLevelTest, WhatWasSetGoesBeforeAnEnvironmentThatNobodyHasRead) {
  const FreshProcess fresh;
  const ScopedEnv torchs("TORCH_DISTRIBUTED_DEBUG", "nonsense");

  EXPECT_EXIT(
      {
        setDebugLevel(DebugLevel::INFO);
        std::exit(debugLevel() == DebugLevel::INFO ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(DebugLevelTest, HasNames) {
  EXPECT_EQ(name(DebugLevel::OFF), "OFF");
  EXPECT_EQ(name(DebugLevel::INFO), "INFO");
  EXPECT_EQ(name(DebugLevel::DETAIL), "DETAIL");
}

}  // namespace
}  // namespace unisono

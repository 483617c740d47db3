#include "base/wait_policy.hpp"

#include <gtest/gtest.h>
#include <thread>

#include "base/futex.hpp"

namespace unisono {
namespace {

TEST(WaitPolicyTest, SpinsOnlyWhereEveryRankHasACore) {
  EXPECT_GT(WaitPolicy(2, 2).spins(), 500);
  EXPECT_FALSE(WaitPolicy(2, 2).isCrowded());
  EXPECT_LT(WaitPolicy(3, 2).spins(), 100);
  EXPECT_TRUE(WaitPolicy(3, 2).isCrowded());
}

TEST(WaitPolicyTest, YieldsUntilItIsThereOrNotWorthIt) {
  const WaitPolicy crowded(64, 1);
  int looks = 0;
  auto third = [&] { return ++looks == 3; };
  // May give up early when strangers use the cores; then it has not looked further.
  const bool found = crowded.yieldUntil(third);
  EXPECT_EQ(found, looks == 3);

  auto never = [] { return false; };
  EXPECT_FALSE(crowded.yieldUntil(never));
  EXPECT_FALSE(WaitPolicy(2, 2).yieldUntil(never)) << "with room there is no yielding";
}

TEST(FutexTest, ASleeperIsWokenAndANewValueIsNotSleptOn) {
  std::atomic<std::uint32_t> word{0};
  futexWait(word, 1, std::chrono::hours(1));  // returns: the word is not 1

  std::thread waker([&] {
    word.store(1);
    futexWakeAll(word);
  });
  while (word.load() == 0) {
    futexWait(word, 0, std::chrono::hours(1));
  }
  waker.join();
  EXPECT_EQ(word.load(), 1U);
}

}  // namespace
}  // namespace unisono

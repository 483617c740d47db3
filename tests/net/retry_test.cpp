#include "net/retry.hpp"

#include <gmock/gmock.h>

namespace unisono {
namespace {

WaitContext within(Milliseconds timeout) {
  return {.deadline = Deadline::after(timeout), .subject = {}};
}

TEST(RetryTest, StopsAtTheFirstSuccess) {
  SeededRng rng(1);
  Backoff backoff({.initial = Milliseconds(1)}, rng);
  int attempts = 0;

  EXPECT_TRUE(
      retryUntil([&] { return ++attempts == 4; }, within(std::chrono::seconds(20)), backoff));

  EXPECT_EQ(attempts, 4);
}

TEST(RetryTest, MakesOneAttemptWhenThereIsNoTime) {
  SeededRng rng(1);
  Backoff backoff(rng);
  int attempts = 0;
  const auto fail = [&] {
    ++attempts;
    return false;
  };

  EXPECT_FALSE(retryUntil(fail, within(Milliseconds(0)), backoff));

  EXPECT_EQ(attempts, 1);
}

TEST(RetryTest, PausesLongerAndLongerUntilTheDeadline) {
  SeededRng rng(1);
  Backoff backoff({.initial = Milliseconds(10), .spread = 0.0}, rng);
  std::vector<TimePoint> attempts;
  const auto fail = [&] {
    attempts.push_back(systemClock().now());
    return false;
  };
  const TimePoint start = systemClock().now();

  EXPECT_FALSE(retryUntil(fail, within(Milliseconds(1500)), backoff));

  EXPECT_GE(elapsedSince(start), Milliseconds(1500));
  ASSERT_GE(attempts.size(), 2U);
  EXPECT_LE(attempts.size(), 8U);  // at 0, 10, 30, 70, 150, 310, 630 and 1270 ms
  for (std::size_t i = 1; i < attempts.size(); ++i) {
    EXPECT_GE(attempts[i] - attempts[i - 1], Milliseconds(10 << (i - 1)));
  }
}

TEST(RetryTest, BeginsNoAttemptAfterTheDeadline) {
  SeededRng rng(1);
  Backoff backoff({.initial = Milliseconds(1), .spread = 0.0}, rng);
  int attempts = 0;
  const WaitContext context = within(Milliseconds(20));
  const auto takeAllTheTime = [&] {
    ++attempts;
    TimerWaitable(Milliseconds(25)).sleep(Milliseconds(25));
    return false;
  };

  EXPECT_FALSE(retryUntil(takeAllTheTime, context, backoff));

  EXPECT_EQ(attempts, 1);
}

}  // namespace
}  // namespace unisono

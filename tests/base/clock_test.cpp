#include "base/clock.hpp"

#include <atomic>
#include <cstdlib>
#include <gmock/gmock.h>
#include <limits>

#include "support/support.hpp"

namespace unisono {
namespace {

using test::FakeClock;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

TEST(DeadlineTest, IsTheTimeoutFromNow) {
  FakeClock clock;
  const Deadline deadline = Deadline::after(Milliseconds(100), clock);

  EXPECT_EQ(deadline.when(), clock.now() + Milliseconds(100));
  EXPECT_EQ(deadline.remaining(clock), Milliseconds(100));
  EXPECT_FALSE(deadline.isNever());
}

TEST(DeadlineTest, ExpiresExactlyAtItsMoment) {
  FakeClock clock;
  const Deadline deadline = Deadline::after(Milliseconds(100), clock);

  clock.advance(Milliseconds(99));
  EXPECT_FALSE(deadline.expired(clock));
  clock.advance(Milliseconds(1));
  EXPECT_TRUE(deadline.expired(clock));
}

TEST(DeadlineTest, OfNowHasExpiredAlready) {
  FakeClock clock;
  const Deadline deadline = Deadline::after(Milliseconds(0), clock);

  EXPECT_TRUE(deadline.expired(clock));
  EXPECT_EQ(deadline.remaining(clock), Milliseconds(0));
}

TEST(DeadlineTest, HasNeverLessThanNothingLeft) {
  FakeClock clock;
  const Deadline deadline = Deadline::after(Milliseconds(100), clock);
  clock.advance(std::chrono::hours(1));

  EXPECT_EQ(deadline.remaining(clock), Milliseconds(0));
  EXPECT_EQ(Deadline::at(TimePoint::min()).remaining(clock), Milliseconds(0));
}

TEST(DeadlineTest, RoundsTheTimeLeftUpSoThatASleepDoesNotEndEarly) {
  FakeClock clock;

  EXPECT_EQ(Deadline::at(clock.now() + std::chrono::nanoseconds(1)).remaining(clock),
            Milliseconds(1));
  EXPECT_EQ(Deadline::at(clock.now() + std::chrono::nanoseconds(1'000'001)).remaining(clock),
            Milliseconds(2));
}

TEST(DeadlineTest, IsNeverForTimeoutsTooLongToRepresent) {
  FakeClock clock;
  const std::int64_t farthest =
      std::chrono::floor<Milliseconds>(TimePoint::max() - clock.now()).count();

  for (const std::int64_t timeout : {kMost, kMost - 1, kMost / 1000, farthest + 1}) {
    const Deadline deadline = Deadline::after(Milliseconds(timeout), clock);
    EXPECT_TRUE(deadline.isNever()) << timeout;
    EXPECT_FALSE(deadline.expired(clock)) << timeout;
  }
  EXPECT_TRUE(Deadline::after(Milliseconds(kMost)).isNever());
}

TEST(DeadlineTest, RepresentsTheLongestTimeoutThatFits) {
  FakeClock clock;
  const auto farthest = std::chrono::floor<Milliseconds>(TimePoint::max() - clock.now());
  const Deadline deadline = Deadline::after(farthest, clock);

  EXPECT_FALSE(deadline.isNever());
  EXPECT_EQ(deadline.remaining(clock), farthest);
}

TEST(DeadlineTest, LeavesAlmostForeverWhenItIsNever) {
  FakeClock clock;

  EXPECT_TRUE(Deadline::never().isNever());
  EXPECT_FALSE(Deadline::never().expired(clock));
  EXPECT_GT(Deadline::never().remaining(clock), std::chrono::hours(24 * 365 * 100));
}

TEST(DeadlineTest, OfANegativeTimeoutIsNow) {
  FakeClock clock;

  for (const std::int64_t timeout : {std::int64_t{-1}, -kMost, -kMost - 1}) {
    const Deadline deadline = Deadline::after(Milliseconds(timeout), clock);
    EXPECT_TRUE(deadline.expired(clock)) << timeout;
    EXPECT_EQ(deadline.remaining(clock), Milliseconds(0)) << timeout;
  }
}

TEST(DeadlineTest, IsOrderedByItsMoment) {
  FakeClock clock;
  const Deadline near = Deadline::after(Milliseconds(1), clock);

  EXPECT_LT(near, Deadline::after(Milliseconds(2), clock));
  EXPECT_LT(near, Deadline::never());
  EXPECT_FALSE(near < near);
}

TEST(DeadlineTest, ComesWhenItsOwnerEndsItOrWhenItsTimeHasCome) {
  FakeClock clock;
  std::atomic<bool> ended{false};
  const Deadline deadline = Deadline::after(Milliseconds(100), clock).orOnce(ended);
  EXPECT_FALSE(deadline.expired(clock));
  EXPECT_EQ(deadline.remaining(clock), Milliseconds(100));

  ended = true;
  EXPECT_TRUE(deadline.expired(clock));
  EXPECT_EQ(deadline.remaining(clock), Milliseconds(0));

  ended = false;
  clock.advance(Milliseconds(100));
  EXPECT_TRUE(deadline.expired(clock));
}

TEST(DeadlineTest, IsBroughtNearerButNeverFurther) {
  FakeClock clock;
  std::atomic<bool> ended{false};
  const Deadline deadline = Deadline::after(Milliseconds(100), clock).orOnce(ended);

  const Deadline nearer = deadline.within(Milliseconds(30), clock);
  EXPECT_EQ(nearer.remaining(clock), Milliseconds(30));
  EXPECT_EQ(deadline.within(Milliseconds(300), clock).remaining(clock), Milliseconds(100));
  ended = true;
  EXPECT_TRUE(nearer.expired(clock)) << "it still has the same owner";
}

TEST(DeadlineTest, NeverComesEarlyByTheMachinesClock) {
  const auto start = std::chrono::steady_clock::now();
  const Deadline deadline = Deadline::after(Milliseconds(5));
  while (!deadline.expired()) {}

  EXPECT_GE(std::chrono::steady_clock::now() - start, Milliseconds(5));
}

TEST(ElapsedSinceTest, CountsWholeMilliseconds) {
  FakeClock clock;
  const TimePoint start = clock.now();
  clock.advance(Milliseconds(1234));

  EXPECT_EQ(elapsedSince(start, clock), Milliseconds(1234));
  EXPECT_EQ(elapsedSince(start - std::chrono::microseconds(999), clock), Milliseconds(1234));
}

TEST(FromSecondsTest, KeepsFractionsOfASecond) {
  EXPECT_EQ(fromSeconds(0), Milliseconds(0));
  EXPECT_EQ(fromSeconds(0.25), Milliseconds(250));
  EXPECT_EQ(fromSeconds(4.35), Milliseconds(4350));  // 4.35 * 1000 is a little less
  EXPECT_EQ(fromSeconds(1800), std::chrono::minutes(30));
  EXPECT_EQ(fromSeconds(-1.5), Milliseconds(-1500));
}

TEST(FromSecondsTest, StopsAtTheEndsOfTheRange) {
  const double infinity = std::numeric_limits<double>::infinity();

  EXPECT_EQ(fromSeconds(1e300), Milliseconds::max());
  EXPECT_EQ(fromSeconds(infinity), Milliseconds::max());
  EXPECT_EQ(fromSeconds(-1e300), Milliseconds::min());
  EXPECT_EQ(fromSeconds(-infinity), Milliseconds::min());
}

// Registered before the library's own static objects are made, and so called after they have
// been destroyed.
constinit bool askAtTheVeryEnd = false;
[[gnu::constructor(101)]] void registerFirst() {
  static_cast<void>(std::atexit([] {
    if (askAtTheVeryEnd) {
      static_cast<void>(systemClock().now());
    }
  }));
}

TEST(SystemClockDeathTest, WorksUntilTheProcessIsGone) {
  const auto leave = [] {
    askAtTheVeryEnd = true;
    std::exit(0);
  };

  EXPECT_EXIT(leave(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace unisono

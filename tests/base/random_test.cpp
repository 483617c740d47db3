#include "base/random.hpp"

#include <algorithm>
#include <gmock/gmock.h>
#include <limits>
#include <set>
#include <vector>

#include "unisono/base/error.hpp"

namespace unisono {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Le;

/// Always the same number: the ends of what an Rng can give.
class ConstantRng final : public Rng {
 public:
  explicit ConstantRng(std::uint64_t number) : number_(number) {}
  std::uint64_t next() noexcept override { return number_; }

 private:
  std::uint64_t number_;
};

constexpr std::uint64_t kHighest = std::numeric_limits<std::uint64_t>::max();

std::vector<std::int64_t> draw(Backoff& backoff, int count) {
  std::vector<std::int64_t> pauses;
  for (int i = 0; i < count; ++i) {
    pauses.push_back(backoff.next().count());
  }
  return pauses;
}

TEST(RngTest, GivesUnitsFromZeroUpToButNotOne) {
  ConstantRng lowest(0);
  ConstantRng highest(kHighest);

  EXPECT_EQ(lowest.unit(), 0.0);
  EXPECT_GT(highest.unit(), 0.999999);
  EXPECT_LT(highest.unit(), 1.0);
}

TEST(SeededRngTest, RepeatsItselfForTheSameSeedOnly) {
  SeededRng one(7);
  SeededRng same(7);
  SeededRng other(8);

  const std::uint64_t first = one.next();
  EXPECT_EQ(first, same.next());
  EXPECT_NE(first, other.next());
  const std::uint64_t second = one.next();
  EXPECT_EQ(second, same.next());
  EXPECT_NE(second, first);
}

TEST(SeededRngTest, IsSplitMix64) {
  SeededRng rng(1234567);  // the published test vector of SplitMix64

  EXPECT_EQ(rng.next(), 6457827717110365317U);
  EXPECT_EQ(rng.next(), 3203168211198807973U);
  EXPECT_EQ(rng.next(), 9817491932198370423U);
}

TEST(RandomSeedTest, DiffersFromCallToCall) {
  std::set<std::uint64_t> seeds;
  for (int i = 0; i < 16; ++i) {
    seeds.insert(randomSeed());
  }

  EXPECT_EQ(seeds.size(), 16U);
}

TEST(BackoffTest, GrowsUpToTheLongestAndStartsAgain) {
  SeededRng rng(1);
  Backoff backoff({.initial = Milliseconds(500),
                   .multiplier = 2.0,
                   .spread = 0.0,
                   .longest = std::chrono::seconds(5)},
                  rng);

  EXPECT_THAT(draw(backoff, 6), ElementsAre(500, 1000, 2000, 4000, 5000, 5000));
  backoff.reset();
  EXPECT_THAT(draw(backoff, 2), ElementsAre(500, 1000));
}

TEST(BackoffTest, SpreadsThePausesAroundTheirLength) {
  SeededRng rng(1);
  Backoff backoff({.initial = Milliseconds(1000),
                   .multiplier = 1.0,
                   .spread = 0.5,
                   .longest = Milliseconds(1000)},
                  rng);
  const std::vector<std::int64_t> pauses = draw(backoff, 100);

  EXPECT_THAT(pauses, Each(AllOf(Ge(500), Le(1500))));
  EXPECT_GT(std::set<std::int64_t>(pauses.begin(), pauses.end()).size(), 50U);
  EXPECT_LT(*std::min_element(pauses.begin(), pauses.end()), 700);
  EXPECT_GT(*std::max_element(pauses.begin(), pauses.end()), 1300);
}

TEST(BackoffTest, ReachesBothEndsOfTheSpread) {
  const Backoff::Options options{.initial = Milliseconds(1000), .spread = 0.5};
  ConstantRng lowest(0);
  ConstantRng highest(kHighest);

  EXPECT_EQ(Backoff(options, lowest).next(), Milliseconds(500));
  EXPECT_EQ(Backoff(options, highest).next(), Milliseconds(1500));
}

TEST(BackoffTest, NeverGivesAPauseOfNothing) {
  ConstantRng lowest(0);
  Backoff backoff({.initial = Milliseconds(1), .spread = 1.0}, lowest);

  EXPECT_THAT(draw(backoff, 20), Each(1));
}

TEST(BackoffTest, StaysWithinTheDefaults) {
  SeededRng rng(1);
  Backoff backoff(rng);

  EXPECT_LE(backoff.next(), Milliseconds(15));
  EXPECT_THAT(draw(backoff, 100), Each(AllOf(Ge(1), Le(1500))));
}

TEST(BackoffTest, RefusesOptionsOutOfRange) {
  SeededRng rng(1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Backoff::Options> bad{
      {.initial = Milliseconds(0)},
      {.initial = Milliseconds(-1)},
      {.multiplier = 0.99},
      {.multiplier = nan},
      {.spread = -0.01},
      {.spread = 1.01},
      {.spread = nan},
      {.initial = Milliseconds(2), .longest = Milliseconds(1)},
  };
  for (const Backoff::Options& options : bad) {
    EXPECT_THROW(Backoff(options, rng), UsageError)
        << options.initial.count() << " " << options.multiplier << " " << options.spread;
  }
}

TEST(BackoffTest, StaysAtTheLongestHoweverLongAndHoweverSteep) {
  ConstantRng highest(kHighest);
  Backoff endless({.initial = Milliseconds(1), .longest = Milliseconds::max()}, highest);
  Backoff steep({.initial = Milliseconds(1),
                 .multiplier = std::numeric_limits<double>::infinity(),
                 .spread = 0.0,
                 .longest = Milliseconds(9)},
                highest);

  EXPECT_EQ(draw(endless, 100).back(), Milliseconds::max().count());
  EXPECT_THAT(draw(steep, 3), ElementsAre(1, 9, 9));
}

}  // namespace
}  // namespace unisono

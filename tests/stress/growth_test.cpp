#include "stress/growth.hpp"

#include <gmock/gmock.h>

#include "base/random.hpp"

namespace unisono::stress {
namespace {

/// What a process has after each world: something that settles, noise in steps, and what leaks.
std::vector<std::int32_t> samples(std::uint64_t seed, double leak) {
  SeededRng rng(seed);
  std::vector<std::int32_t> all;
  double noise = 0;
  for (int i = 0; i < 4000; ++i) {
    if (rng.next() % 50 == 0) {
      noise = static_cast<double>(rng.next() % 2048);
    }
    const double settled = 8192 * (1 - std::exp(-i / 200.0));
    all.push_back(static_cast<std::int32_t>(12'000 + settled + noise + leak * i));
  }
  return all;
}

TEST(GrowthTest, IsNotSeenWhereThereIsNone) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    EXPECT_FALSE(growthOf(samples(seed, 0)).exceeds(2)) << "seed " << seed;
  }
}

TEST(GrowthTest, IsSeenWhereThereIsSome) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Growth growth = growthOf(samples(seed, 6));

    EXPECT_TRUE(growth.exceeds(2)) << "seed " << seed;
    EXPECT_NEAR(growth.perSample, 6, 1.5);
  }
}

TEST(GrowthTest, OfFewSamplesIsNothing) {
  EXPECT_EQ(growthOf({}).perSample, 0);
  EXPECT_EQ(growthOf(std::vector<std::int32_t>{1, 2, 3}).perSample, 0);
}

}  // namespace
}  // namespace unisono::stress

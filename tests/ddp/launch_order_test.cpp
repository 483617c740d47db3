#include "ddp/launch_order.hpp"

#include <gmock/gmock.h>

#include "ddp/training.hpp"

namespace unisono::ddp {
namespace {

using test::shuffled;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LaunchOrderTest, ABucketWaitsForThoseBeforeIt) {
  LaunchOrder order({0, 1, 1}, 2);
  for (const std::size_t param : {1U, 2U}) {
    EXPECT_TRUE(order.arrive(param));
    order.place(param);
    EXPECT_EQ(order.claim(), std::nullopt);
  }

  order.arrive(0);
  order.place(0);
  EXPECT_EQ(order.claim(), 0);
  order.launched();
  EXPECT_EQ(order.claim(), 1);
  order.launched();

  EXPECT_TRUE(order.allLaunched());
  EXPECT_EQ(order.claim(), std::nullopt);
}

TEST(LaunchOrderTest, GoesByNumberWhateverArrivesFirst) {
  constexpr std::size_t kParams = 40;
  std::vector<std::size_t> bucketOf;
  for (std::size_t param = 0; param < kParams; ++param) {
    bucketOf.push_back(param % 7);
  }
  LaunchOrder order(bucketOf, 7);
  for (unsigned seed = 0; seed < 200; ++seed) {
    order.open();
    std::vector<std::size_t> launched;
    for (const std::size_t param : shuffled(kParams, seed)) {
      order.arrive(param);
      order.place(param);
      while (const auto bucket = order.claim()) {
        launched.push_back(*bucket);
        order.launched();
      }
    }
    EXPECT_THAT(launched, ElementsAre(0, 1, 2, 3, 4, 5, 6)) << "seed " << seed;
  }
}

TEST(LaunchOrderTest, OneLaunchesAtATime) {
  LaunchOrder order({0, 1}, 2);
  for (const std::size_t param : {0U, 1U}) {
    order.arrive(param);
    order.place(param);
  }

  EXPECT_EQ(order.claim(), 0);
  EXPECT_TRUE(order.isLaunching());
  EXPECT_EQ(order.claim(), std::nullopt);
  order.launched();
  EXPECT_EQ(order.claim(), 1);
}

TEST(LaunchOrderTest, SaysWhoIsMissingAndWhoCameTwice) {
  LaunchOrder order({0, 0, 1}, 2);
  EXPECT_TRUE(order.arrive(1));
  EXPECT_FALSE(order.arrive(1));
  EXPECT_THAT(order.missing(), ElementsAre(0, 2));

  order.open();
  EXPECT_THAT(order.missing(), ElementsAre(0, 1, 2));
  EXPECT_FALSE(order.hasArrived(1));
}

TEST(LaunchOrderTest, NothingIsLaunchedAfterAStop) {
  LaunchOrder order({0}, 1);
  order.arrive(0);
  order.place(0);
  order.stop();

  EXPECT_EQ(order.claim(), std::nullopt);
  EXPECT_FALSE(order.allLaunched());
  EXPECT_THAT(order.missing(), IsEmpty());
}

}  // namespace
}  // namespace unisono::ddp

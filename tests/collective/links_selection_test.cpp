// Which algorithm between hosts is taken.
#include <gmock/gmock.h>
#include <set>

#include "collective/selection.hpp"
#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using links::LinkSelector;
using test::textOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kKi = 1024;

/// With what UNISONO_ALGO=`text` forces.
LinkSelector forcing(const std::string& text) {
  const test::ScopedEnv algo("UNISONO_ALGO", text.c_str());
  return Selector().links();
}

TEST(LinkSelectorTest, ReducesInFewFlightsWhatIsSmallAndWithFewBytesWhatIsLarge) {
  const LinkSelector selector;

  EXPECT_EQ(selector.allreduce(0, 7).name, "gathered");
  EXPECT_EQ(selector.allreduce(16 * kKi, 7).name, "gathered");
  EXPECT_EQ(selector.allreduce(16 * kKi + 1, 7).name, "doubling");
  EXPECT_EQ(selector.allreduce(64 * kKi, 7).name, "doubling");
  EXPECT_EQ(selector.allreduce(64 * kKi + 1, 7).name, "halving");
  EXPECT_EQ(selector.allreduce(512 * kKi, 7).name, "halving");
  EXPECT_EQ(selector.allreduce(512 * kKi + 1, 7).name, "ring");
  EXPECT_EQ(selector.reduce(256 * kKi, 8).name, "binomial");
  EXPECT_EQ(selector.reduce(256 * kKi + 1, 8).name, "ring");
  EXPECT_EQ(selector.reduceScatter(64 * kKi, 8).name, "direct");
  EXPECT_EQ(selector.reduceScatter(64 * kKi + 1, 8).name, "pairwise");
}

TEST(LinkSelectorTest, ManyRanksGetEverythingFromEverybodyOnlyWhereThatIsLittle) {
  const LinkSelector selector;

  EXPECT_EQ(selector.allreduce(2 * kKi, 31).name, "gathered");
  EXPECT_EQ(selector.allreduce(2 * kKi + 1, 31).name, "doubling");
  EXPECT_EQ(selector.allreduce(64, 1000).name, "gathered");
  EXPECT_EQ(selector.allreduce(65, 1000).name, "doubling");
  EXPECT_EQ(selector.allreduce(0, 8).name, "doubling") << "there is no guest";
}

TEST(LinkSelectorTest, WhereHalvingHasNoGuestsItSendsNoMoreThanARing) {
  const LinkSelector selector;

  EXPECT_EQ(selector.allreduce(64 * kKi, 8).name, "doubling");
  EXPECT_EQ(selector.allreduce(64 * kKi + 1, 8).name, "halving");
  EXPECT_EQ(selector.allreduce(16 * kKi * kKi, 8).name, "halving");
  EXPECT_EQ(selector.allreduce(16 * kKi * kKi + 1, 8).name, "ring");
  EXPECT_EQ(selector.allreduce(64 * kKi + 1, 3).name, "ring") << "one of three is a guest";
}

TEST(LinkSelectorTest, MovesDataByTheSameRule) {
  const LinkSelector selector;

  EXPECT_EQ(selector.broadcast(256 * kKi, 3).name, "binomial");
  EXPECT_EQ(selector.broadcast(256 * kKi + 1, 3).name, "scattered");
  EXPECT_EQ(selector.allgather(64 * kKi, 3).name, "bruck");
  EXPECT_EQ(selector.allgather(64 * kKi + 1, 3).name, "ring");
  EXPECT_EQ(selector.alltoall(64 * kKi, 3).name, "direct");
  EXPECT_EQ(selector.alltoall(64 * kKi + 1, 3).name, "pairwise");
}

TEST(LinkSelectorTest, BetweenTwoRanksOneMessageIsBestForAllSizes) {
  const LinkSelector selector;

  for (const std::size_t bytes : {std::size_t{1}, 64 * kKi, kKi * kKi * kKi}) {
    EXPECT_EQ(selector.broadcast(bytes, 2).name, "binomial");
    EXPECT_EQ(selector.reduce(bytes, 2).name, "binomial");
    EXPECT_EQ(selector.allgather(bytes, 2).name, "ring");
  }
  EXPECT_EQ(selector.allreduce(256 * kKi, 2).name, "doubling");
  EXPECT_EQ(selector.allreduce(256 * kKi + 1, 2).name, "halving") << "each reduces one half only";
}

TEST(LinkSelectorTest, TakesWhatIsForcedWhateverTheSize) {
  const LinkSelector selector =
      forcing("all_reduce=tcp/ring,reducescatter=tcp/ring;all_to_all=tcp/pairwise");

  EXPECT_EQ(selector.allreduce(1, 2).name, "ring");
  EXPECT_EQ(selector.reduceScatter(1, 2).name, "ring");
  EXPECT_EQ(selector.alltoall(1, 2).name, "pairwise");
  EXPECT_EQ(selector.broadcast(1, 2).name, "binomial") << "the rest is as it was";
}

TEST(LinkSelectorTest, WhatIsForcedMayBeForSomeSizesOnly) {
  const LinkSelector selector = forcing("allreduce=flat,tcp/ring:0-1k,tcp/doubling:1k-inf");

  EXPECT_EQ(selector.allreduce(1023, 2).name, "ring");
  EXPECT_EQ(selector.allreduce(1024, 2).name, "doubling");
  EXPECT_EQ(forcing("allreduce=tcp/ring:0-1k").allreduce(1024, 2).name, "doubling");
  EXPECT_EQ(forcing("allreduce=flat").allreduce(kKi * kKi, 2).name, "halving")
      << "that is for ranks that share memory";
}

TEST(LinkSelectorTest, EveryNameCanBeForced) {
  for (const links::AlgorithmName& each : LinkSelector::names()) {
    LinkSelector selector;
    EXPECT_TRUE(selector.force({std::string(each.operation), {std::string(each.name), {0}}}));
    EXPECT_FALSE(each.summary.empty());
  }
  EXPECT_EQ(LinkSelector::names().size(), 15U);
}

TEST(LinkSelectorTest, RefusesWhatNamesNoAlgorithm) {
  for (const char* wrong :
       {"tcp/ring", "allreduce=tcp/", "allreduce=tcp/bruck", "=tcp/ring", "allreduce=tcp/ring,x",
        "allreduce=ring", "blocks=tcp/ring", "reduce=tcp/ring:1k", "gather=tcp/direct"}) {
    EXPECT_THAT(textOf<UsageError>([&] { forcing(wrong); }),
                AllOf(HasSubstr("names no algorithm"), HasSubstr("allreduce=tcp/halving"),
                      HasSubstr("alltoall=tcp/pairwise"), HasSubstr("[CONFIG]")))
        << wrong;
  }
}

TEST(LinkSelectorTest, EveryOperationIsDescribedToItsLastCase) {
  const std::vector<ThresholdLine> lines = LinkSelector::describe();
  std::set<std::string> ended;
  for (const ThresholdLine& line : lines) {
    EXPECT_THAT(line.algorithm, testing::StartsWith("tcp/"));
    EXPECT_FALSE(ended.contains(line.operation)) << "nothing fits after " << line.operation;
    if (line.when == "otherwise") {
      ended.insert(line.operation);
    }
  }
  EXPECT_THAT(ended, testing::ElementsAre("all_gather", "all_reduce", "all_to_all", "broadcast",
                                          "reduce", "reduce_scatter"));
}

TEST(LinkSelectorTest, NumbersTellAlgorithmsApart) {
  std::set<int> numbers;
  for (const links::AlgorithmName& each : LinkSelector::names()) {
    const LinkSelector selector =
        forcing(std::string(each.operation) + "=tcp/" + std::string(each.name));
    const int all[] = {selector.allreduce(1, 3).number,     selector.reduce(1, 3).number,
                       selector.broadcast(1, 3).number,     selector.allgather(1, 3).number,
                       selector.reduceScatter(1, 3).number, selector.alltoall(1, 3).number};
    numbers.insert(std::begin(all), std::end(all));
  }
  EXPECT_EQ(numbers.size(), LinkSelector::names().size());
}

}  // namespace
}  // namespace unisono

#include "launch/binding.hpp"

#include <algorithm>
#include <gmock/gmock.h>
#include <string>
#include <vector>

#include "unisono/base/error.hpp"

namespace unisono::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Two packages of two memory nodes each; a node has two caches of two cores of two threads.
std::vector<Core> bigHost() {
  std::vector<Core> cores;
  for (int number = 0; number < 32; ++number) {
    const int physical = number % 16;  // the second threads are counted after all first ones
    cores.push_back({.number = number,
                     .node = physical / 4,
                     .package = physical / 8,
                     .cache = physical / 2,
                     .physical = physical});
  }
  return cores;
}

TEST(BindingTest, KnowsTheNamesOfTorchrun) {
  EXPECT_EQ(bindingNamed("node"), Binding::NODE);
  EXPECT_EQ(bindingNamed("socket"), Binding::SOCKET);
  EXPECT_EQ(bindingNamed("exclusive"), Binding::EXCLUSIVE);
  EXPECT_EQ(bindingNamed("core-complex"), Binding::CORE_COMPLEX);
  EXPECT_EQ(bindingNamed("none"), std::nullopt);
}

TEST(BindingTest, SpreadsRanksOverTheNodes) {
  const std::vector<Core> cores = bigHost();

  EXPECT_EQ(nodeCount(cores), 4);
  EXPECT_THAT(coresFor(Binding::NODE, cores, 0, 2), ElementsAre(0, 1, 2, 3, 16, 17, 18, 19));
  EXPECT_THAT(coresFor(Binding::NODE, cores, 1, 2), ElementsAre(8, 9, 10, 11, 24, 25, 26, 27));
  EXPECT_EQ(coresFor(Binding::NODE, cores, 0, 8), coresFor(Binding::NODE, cores, 1, 8));
  EXPECT_NE(coresFor(Binding::NODE, cores, 1, 8), coresFor(Binding::NODE, cores, 2, 8));
  EXPECT_THAT(coresFor(Binding::NONE, cores, 0, 2), IsEmpty());
}

TEST(BindingTest, GivesAWholePackage) {
  const std::vector<int> first = coresFor(Binding::SOCKET, bigHost(), 1, 4);

  EXPECT_EQ(first.size(), 16U);
  EXPECT_EQ(first, coresFor(Binding::SOCKET, bigHost(), 0, 4));
  EXPECT_NE(first, coresFor(Binding::SOCKET, bigHost(), 2, 4));
}

TEST(BindingTest, GivesCoresThatNobodyElseHas) {
  const std::vector<Core> cores = bigHost();

  EXPECT_THAT(coresFor(Binding::EXCLUSIVE, cores, 0, 12), ElementsAre(0, 16));
  EXPECT_THAT(coresFor(Binding::EXCLUSIVE, cores, 2, 12), ElementsAre(2, 3, 18, 19));
  std::vector<int> all;
  for (int rank = 0; rank < 12; ++rank) {
    const std::vector<int> mine = coresFor(Binding::EXCLUSIVE, cores, rank, 12);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all.size(), 32U);
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
  EXPECT_THROW(coresFor(Binding::EXCLUSIVE, cores, 0, 17), UsageError);
}

TEST(BindingTest, GivesCoresThatShareACache) {
  EXPECT_THAT(coresFor(Binding::CORE_COMPLEX, bigHost(), 0, 8), ElementsAre(0, 1, 16, 17));
  EXPECT_THAT(coresFor(Binding::CORE_COMPLEX, bigHost(), 1, 8), ElementsAre(2, 3, 18, 19));
  EXPECT_THAT(coresFor(Binding::CORE_COMPLEX, bigHost(), 2, 8), ElementsAre(4, 5, 20, 21));
}

TEST(BindingTest, WhatTheKernelDoesNotTellCountsAsOne) {
  const std::vector<Core> cores = coresOfHost("/nowhere");

  EXPECT_FALSE(cores.empty());
  EXPECT_EQ(nodeCount(cores), 1);
  EXPECT_EQ(coresFor(Binding::CORE_COMPLEX, cores, 0, 1).size(), cores.size());
}

}  // namespace
}  // namespace unisono::launch

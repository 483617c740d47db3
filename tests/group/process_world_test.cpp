// The world that the tests between processes stand on.
#include "support/process_world.hpp"

#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <stdexcept>
#include <unistd.h>

#include "unisono/group/group.hpp"

#include "base/str.hpp"
#include "store/expect.hpp"

namespace unisono {
namespace {

using test::ProcessWorld;
using test::textOfThrown;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

/// The group of the ranks of `world`, the same one in every call until one fails.
Group& groupOf(const ProcessWorld& world, int rank) {
  return ProcessWorld::kept<Group>("group", [&] {
    return std::make_shared<Group>(
        init({.store = ProcessWorld::store(), .rank = rank, .size = world.size()}));
  });
}

std::string whatOf(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST(ProcessWorldTest, RanksAreProcessesAndStayForTheNextCall) {
  const ProcessWorld world(3);
  pid_t before = 0;
  Group* group = nullptr;
  EXPECT_THAT(world.outcomes([&](int rank) {
    before = ::getpid();
    EXPECT_TRUE(ProcessWorld::isRank());
    group = &groupOf(world, rank);
  }),
              Each(nullptr));
  EXPECT_THAT(world.outcomes([&](int rank) {
    EXPECT_EQ(before, ::getpid());
    EXPECT_EQ(group, &groupOf(world, rank));
    std::vector<int> data(10, rank);
    group->allReduce(data);
    EXPECT_THAT(data, Each(3));
  }),
              Each(nullptr));
}

TEST(ProcessWorldTest, WhatRanksThrowComesBackAsItWas) {
  const auto thrown = ProcessWorld(3).outcomes([](int rank) {
    if (rank == 1) {
      throw DistBackendError({.reason = Reason::MISMATCH,
                              .what = "no match",
                              .hint = "match",
                              .op = "all_reduce",
                              .seq = 7,
                              .group = "g",
                              .rank = rank,
                              .world = 3,
                              .culprits = {0, 2},
                              .host = "here",
                              .pid = 12,
                              .detectedBy = "a look",
                              .elapsed = std::chrono::milliseconds(5)});
    }
    if (rank == 2) {
      throw std::out_of_range("too far");
    }
  });
  EXPECT_EQ(thrown[0], nullptr);
  EXPECT_EQ(textOfThrown(thrown[1]),
            "unisono: no match. DO: match. [MISMATCH] {op=all_reduce seq=7 group=g rank=1/3 "
            "culprits=[0,2] host=here pid=12 by=a look elapsed=5ms}");
  EXPECT_EQ(whatOf(thrown[2]), "too far");
}

TEST(ProcessWorldTest, WhatARankFindsWrongIsAFailureOfTheTestWithItsName) {
  const ProcessWorld world(2);
  const auto beZero = [](int rank) { EXPECT_EQ(rank, 0) << "of two"; };
  EXPECT_THAT(world.outcomes([](int) {}), Each(nullptr));  // now there are ranks
  if (ProcessWorld::isRank()) {
    static_cast<void>(world.outcomes(beZero));
    return;
  }
  EXPECT_NONFATAL_FAILURE(static_cast<void>(world.outcomes(beZero)), "rank 1: ");
}

TEST(ProcessWorldTest, ARankThatDiesIsNamedByAllAndMadeAnew) {
  const ProcessWorld world(3);
  const auto sum = [&](int rank) {
    std::vector<int> data(10, rank);
    groupOf(world, rank).allReduce(data);
    EXPECT_THAT(data, Each(3));
  };
  EXPECT_THAT(world.outcomes(sum), Each(nullptr));
  const auto thrown = world.outcomes([&](int rank) {
    if (rank == 1) {
      ::raise(SIGKILL);
    }
    sum(rank);
  });
  EXPECT_THAT(textOfThrown(thrown[1]), HasSubstr("rank 1 was ended by signal 9"));
  for (const int rank : {0, 2}) {
    EXPECT_THAT(textOfThrown(thrown[static_cast<std::size_t>(rank)]),
                AllOf(HasSubstr("[PEER_DEAD]"), HasSubstr("culprits=[1]")));
  }
  EXPECT_THAT(world.outcomes(sum), Each(nullptr));
}

}  // namespace
}  // namespace unisono

// Groups whose ranks are on several hosts, and what they are told when the network fails.
#include <algorithm>
#include <cstdio>
#include <gmock/gmock.h>

#include "base/str.hpp"
#include "fault/chores.hpp"
#include "fault/host_ranks.hpp"
#include "store/expect.hpp"
#include "support/watch.hpp"

namespace unisono::fault {
namespace {

using test::Netlab;
using ::testing::HasSubstr;
using Seat = HostRanks::Seat;
using Told = HostRanks::Told;
using namespace std::chrono_literals;

// Short, so that tests are; keep-alive takes whole seconds, four of them at least.
constexpr Milliseconds kNetDead(1000);
// For idle links: keep-alive's four seconds, one to ask, and time for a machine that is busy.
constexpr double kSoon = 15;

class BetweenHostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = Netlab::whyNot(); !why.empty()) {
      GTEST_SKIP() << why;
    }
  }
};

/// Everybody is told that somebody is not reached, in time; `mayBlame(rank, culprit)` of the ranks.
template <typename MayBlame>
void expectUnreachable(HostRanks& ranks, MayBlame mayBlame) {
  const std::vector<Told> all = ranks.outcomes();
  double worst = 0;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const Told& told = all[static_cast<std::size_t>(rank)];
    EXPECT_THAT(told.text, HasSubstr("[PEER_UNREACHABLE]")) << "rank " << rank;
    bool isBlamed = false;
    for (int other = 0; other < ranks.size(); ++other) {
      isBlamed = isBlamed || (mayBlame(rank, other) &&
                              told.text.find(str("culprits=[", other, "]")) != std::string::npos);
    }
    EXPECT_TRUE(isBlamed) << "rank " << rank << " was told: " << told.text;
    EXPECT_LE(told.seconds, kSoon) << "rank " << rank;
    worst = std::max(worst, told.seconds);
  }
  std::printf("told within %.1f s\n", worst);
}

/// Those on `host` and all others do not reach each other.
void expectCutOff(HostRanks& ranks, int host) {
  expectUnreachable(ranks, [&](int rank, int culprit) {
    return (ranks.hostOf(rank) == host) != (ranks.hostOf(culprit) == host);
  });
}

void work(Group& group, int turns, std::size_t count) {
  for (int turn = 0; turn < turns; ++turn) {
    std::vector<float> data(count, 1.0F);
    group.allReduce(data);
    if (data.front() != static_cast<float>(group.size()) || data.front() != data.back()) {
      throw std::runtime_error("wrong");
    }
  }
}

class EveryCollectiveTest : public BetweenHostsTest, public ::testing::WithParamInterface<int> {};

TEST_P(EveryCollectiveTest, WorksBetweenHosts) {
  const Netlab lab(GetParam());
  lab.limit(0, 500);  // one that is slower than the others
  HostRanks ranks(lab, 2, kNetDead, [](const Seat& seat) {
    Group group = seat.join();
    for (int kind = 0; kind < Chore::kKinds; ++kind) {
      for (const std::size_t count : {1UL, 16'384UL, 150'000UL}) {
        const Chore chore{.kind = static_cast<Chore::Kind>(kind),
                          .count = count,
                          .async = kind % 2 == 1,
                          .root = seat.size() - 1};
        if (!carryOut(
                group, chore, [] {}, [] { throw std::runtime_error("beside"); })) {
          throw std::runtime_error(str("wrong: kind ", kind, ", ", count));
        }
      }
    }
    group.barrier();
  });
  for (const Told& told : ranks.outcomes()) {
    EXPECT_EQ(told.text, "done");
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, EveryCollectiveTest, ::testing::Values(2, 3));

TEST_F(BetweenHostsTest, AHostThatIsLostWhileNothingHappensIsNamedByTheNextCall) {
  const Netlab lab(3);
  HostRanks ranks(lab, 2, kNetDead, [](const Seat& seat) {
    Group group = seat.join();
    work(group, 3, 1000);
    seat.arrive();
    seat.awaitGo();
    // All but the root only listen.
    std::vector<int> data(10);
    group.broadcast(data, {.root = 5});
    group.broadcast(data, {.root = 0});
  });
  ASSERT_TRUE(ranks.awaitArrivals());
  lab.cut(2);
  ranks.go();
  expectCutOff(ranks, 2);
}

TEST_F(BetweenHostsTest, AHostThatIsOnlyListenedToIsMissed) {
  const Netlab lab(2);
  HostRanks ranks(lab, 1, kNetDead, [](const Seat& seat) {
    Group group = seat.join();
    std::vector<int> data(10);
    group.broadcast(data, {.root = 1});
    seat.arrive();
    seat.awaitGo();
    group.broadcast(data, {.root = 1});  // which goes into the kernel of rank 1
    group.broadcast(data, {.root = 0});
  });
  ASSERT_TRUE(ranks.awaitArrivals());
  lab.cut(1);
  ranks.go();
  expectCutOff(ranks, 1);
}

TEST_F(BetweenHostsTest, AHostThatIsLostWithMessagesUnderWayIsNamed) {
  const Netlab lab(2);
  HostRanks ranks(lab, 1, kNetDead, [](const Seat& seat) {
    Group group = seat.join();
    const int other = 1 - seat.rank();
    std::vector<int> mine(1000);
    std::vector<int> theirs(1000);
    const auto exchange = [&] {
      const WorkPtr sent = group.send(mine, other, {.async = true});
      group.recv(theirs, other);
      sent->wait();
    };
    exchange();
    seat.arrive();
    seat.awaitGo();
    exchange();
  });
  ASSERT_TRUE(ranks.awaitArrivals());
  lab.cut(1);
  ranks.go();
  expectCutOff(ranks, 1);
}

TEST_F(BetweenHostsTest, AHostThatIsLostWithDataUnderWayIsNamed) {
  const Netlab lab(3);
  HostRanks ranks(lab, 2, kNetDead, [](const Seat& seat) {
    Group group = seat.join();
    work(group, 3, 1000);
    seat.arrive();
    work(group, 1'000'000, 1'000'000);
  });
  ASSERT_TRUE(ranks.awaitArrivals());
  lab.cut(1);
  ranks.go();
  expectCutOff(ranks, 1);
}

TEST_F(BetweenHostsTest, WhatIsCutOffForAMomentOnlyGoesOn) {
  const Netlab lab(2);
  HostRanks ranks(lab, 2, 8000ms, [](const Seat& seat) {
    Group group = seat.join();
    work(group, 3, 1000);
    seat.arrive();
    seat.awaitGo();
    work(group, 20, 100'000);
    seat.arrive();
  });
  ASSERT_TRUE(ranks.awaitArrivals());
  lab.cut(1);
  ranks.go();
  // Nobody gets through meanwhile.
  EXPECT_FALSE(test::eventually([&] { return ranks.hasArrival(); }, 1500ms));
  lab.heal(1);
  for (const Told& told : ranks.outcomes()) {
    EXPECT_EQ(told.text, "done");
  }
}

TEST_F(BetweenHostsTest, AnIdleGroupOutlivesAMomentOfSilence) {
  const Netlab lab(2);
  HostRanks ranks(lab, 1, kNetDead, [](const Seat& seat) {
    Group group = seat.join();
    work(group, 1, 10);
    seat.arrive();
    seat.awaitGo();
    work(group, 1, 10);
  });
  ASSERT_TRUE(ranks.awaitArrivals());
  lab.cut(0);
  lab.heal(0);
  ranks.go();
  for (const Told& told : ranks.outcomes()) {
    EXPECT_EQ(told.text, "done");
  }
}

TEST_F(BetweenHostsTest, WhatTheNetworkLosesIsSentAgain) {
  const Netlab lab(2);
  lab.lose(0);
  HostRanks ranks(lab, 2, 8000ms, [](const Seat& seat) {
    Group group = seat.join();
    work(group, 10, 50'000);
  });
  for (const Told& told : ranks.outcomes()) {
    EXPECT_EQ(told.text, "done");
  }
  EXPECT_GT(lab.sentAgain(0), 0) << "nothing was lost";
}

TEST_F(BetweenHostsTest, AfterTheNetworkHasHealedANewGroupWorksAndTheOldOneStaysFailed) {
  const Netlab lab(2);
  HostRanks ranks(lab, 2, kNetDead, [](const Seat& seat) {
    Group old = seat.join();
    work(old, 3, 1000);
    seat.arrive();
    seat.awaitGo();
    const auto whyNot = [&] {
      return test::textOf<DistBackendError>([&] { work(old, 1'000'000, 100'000); });
    };
    const std::string why = whyNot();
    if (why.find("[PEER_UNREACHABLE]") == std::string::npos) {
      throw std::runtime_error("told: " + why);
    }
    seat.arrive();
    seat.awaitGo(1);
    Group young = seat.join(30s, "another store");
    work(young, 10, 1000);
    if (whyNot().find("[PEER_UNREACHABLE]") == std::string::npos) {
      throw std::runtime_error("the old group works again");
    }
    work(young, 10, 1000);
    young.barrier();
  });
  ASSERT_TRUE(ranks.awaitArrivals());
  lab.cut(1);
  ranks.go();
  ASSERT_TRUE(ranks.awaitArrivals());
  lab.heal(1);
  ranks.go();
  for (const Told& told : ranks.outcomes()) {
    EXPECT_EQ(told.text, "done");
  }
}

TEST_F(BetweenHostsTest, WhereOneWayIsLostBothAreTold) {
  for (const bool isLarge : {false, true}) {
    const Netlab lab(2);
    HostRanks ranks(lab, 1, kNetDead, [&](const Seat& seat) {
      Group group = seat.join();
      work(group, 3, 1000);
      seat.arrive();
      seat.awaitGo();
      work(group, 1000, isLarge ? 1'000'000 : 1);
    });
    ASSERT_TRUE(ranks.awaitArrivals());
    lab.loseWay(0, 1);
    ranks.go();
    // Who can still be told may learn it from the other.
    expectUnreachable(ranks, [](int, int) { return true; });
  }
}

TEST_F(BetweenHostsTest, AHostThatIsLostWhileTheGroupFormsIsNamed) {
  const Netlab lab(3);
  HostRanks ranks(lab, 1, kNetDead, [&](const Seat& seat) {
    if (seat.rank() == 2) {
      return;  // never comes
    }
    seat.arrive();
    seat.awaitGo();
    seat.join();
  });
  ASSERT_TRUE(ranks.awaitArrivals(2));
  lab.cut(1);
  ranks.go();
  const std::vector<Told> all = ranks.outcomes();
  for (const int rank : {0, 1}) {
    const Told& told = all[static_cast<std::size_t>(rank)];
    EXPECT_THAT(told.text, HasSubstr("[PEER_UNREACHABLE]")) << "rank " << rank;
    EXPECT_LE(told.seconds, kSoon) << "rank " << rank;
  }
}

}  // namespace
}  // namespace unisono::fault

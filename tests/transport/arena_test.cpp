#include "transport/shm/arena.hpp"

#include <atomic>
#include <gmock/gmock.h>
#include <unistd.h>

#include "net/net_support.hpp"
#include "store/expect.hpp"
#include "support/bounds.hpp"
#include "support/thread_world.hpp"

namespace unisono::shm {
namespace {

using test::announcement;
using test::operate;
using test::textOf;
using test::textOfThrown;
using test::ThreadWorld;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

TEST(ArenaTest, WhoHasArrivedIsSeenByAll) {
  ThreadWorld world(4);
  world.run([](Arena& arena) {
    for (int turn = 0; turn < 500; ++turn) {
      operate(arena, [&] {
        arena.useSlots(64, 1);
        const auto mine = static_cast<std::byte>(arena.rank() * 50 + turn % 50);
        *arena.slot(arena.rank(), 0) = mine;
        arena.arrive(0);
        for (int peer = 0; peer < arena.size(); ++peer) {
          arena.awaitArrival(peer, 0);
          ASSERT_EQ(*arena.slot(peer, 0), static_cast<std::byte>(peer * 50 + turn % 50));
        }
      });
    }
  });
}

TEST(ArenaTest, LinesCarryDataAndFlagTogether) {
  ThreadWorld world(3);
  world.run([](Arena& arena) {
    for (std::uint64_t turn = 0; turn < 500; ++turn) {
      operate(arena, [&] {
        const std::uint64_t mine = turn * 10 + static_cast<std::uint64_t>(arena.rank());
        arena.sendLine(0, reinterpret_cast<const std::byte*>(&mine), sizeof mine, true);
        for (int peer = 0; peer < arena.size(); ++peer) {
          std::uint64_t theirs = 0;
          std::memcpy(&theirs, arena.awaitLine(peer, 0), sizeof theirs);
          ASSERT_EQ(theirs, turn * 10 + static_cast<std::uint64_t>(peer));
        }
      });
    }
  });
}

TEST(ArenaTest, AWriterWaitsForSlowReaders) {
  ThreadWorld world(2);
  constexpr std::size_t kRounds = 200;
  world.run([&](Arena& arena) {
    operate(
        arena,
        [&] {
          arena.useSlots(arena.mostChunk(), kRounds);
          for (std::size_t round = 0; round < kRounds; ++round) {
            if (arena.rank() == 0) {
              arena.awaitRoom(round);
              *reinterpret_cast<std::size_t*>(arena.slot(0, round)) = round;
              arena.arrive(round);
            } else {
              arena.awaitArrival(0, round);
              ASSERT_EQ(*reinterpret_cast<std::size_t*>(arena.slot(0, round)), round);
            }
            arena.release(round);
          }
        },
        false);
  });
}

TEST(ArenaTest, OnlyTheLastGathersAndAllSeeItsResult) {
  for (const int cores : {1, 8}) {
    ThreadWorld world(8, {.cores = cores});
    std::atomic<int> last{0};
    world.run([&](Arena& arena) {
      for (int turn = 1; turn <= 200; ++turn) {
        operate(arena, [&] {
          if (arena.gather()) {
            last.fetch_add(1);
            *reinterpret_cast<int*>(arena.resultSlot()) = turn;
            arena.publishGathered();
          } else {
            arena.awaitGathered();
          }
          ASSERT_EQ(*reinterpret_cast<int*>(arena.resultSlot()), turn);
        });
      }
    });
    EXPECT_EQ(last.load(), 200);
  }
}

TEST(ArenaTest, RanksThatDoDifferentThingsAreToldOfEachOther) {
  ThreadWorld world(3);
  const auto thrown = world.outcomes([](Arena& arena) {
    operate(
        arena,
        [&] {
          arena.useSlots(64, 1);
          arena.arrive(0);
          for (int peer = 0; peer < arena.size(); ++peer) {
            arena.awaitArrival(peer, 0);
          }
          // Who got through learns of it in the next operation.
          throw UsageError({.what = "unseen"});
        },
        true, arena.rank() == 2 ? 7 : 1);
  });

  EXPECT_THAT(textOfThrown(thrown[2]),
              AllOf(HasSubstr("[MISMATCH]"), HasSubstr("rank 2 calls test 7"),
                    HasSubstr("calls test 1"), HasSubstr("seq=1")));
}

TEST(ArenaTest, AMismatchBlamesWhoeverDiffersFromMost) {
  ThreadWorld world(4);
  for (int rank = 0; rank < 4; ++rank) {
    world.arena(rank).begin(announcement(rank == 2 ? 7 : 1));
  }
  for (const int rank : {2, 0}) {
    EXPECT_THAT(textOf<DistBackendError>([&] { world.arena(rank).wait().throwMismatch(3 - rank); }),
                HasSubstr("culprits=[2]"))
        << "whoever finds it";
  }

  ThreadWorld two(2);
  two.arena(0).begin(announcement(1));
  two.arena(1).begin(announcement(7));
  EXPECT_THAT(textOf<DistBackendError>([&] { two.arena(1).wait().throwMismatch(0); }),
              HasSubstr("culprits=[0,1]"))
      << "nobody is most";
}

TEST(ArenaTest, ATimeoutNamesAllWhoAreMissingNotWhomTheRankHappensToWaitFor) {
  ThreadWorld world(4);
  world.arena(0).begin(announcement(1, 20ms));
  world.arena(1).begin(announcement(1, 20s));

  EXPECT_THAT(textOf<DistTimeoutError>([&] { world.arena(0).awaitArrival(1, 0); }),
              AllOf(HasSubstr("Waiting for rank 2 (process"), HasSubstr("rank 3 (process"),
                    HasSubstr("culprits=[2,3]")));
}

TEST(ArenaTest, ATimeoutNamesTheMissingAndEndsTheGroup) {
  ThreadWorld world(3);
  const auto thrown = world.outcomes([](Arena& arena) {
    if (arena.rank() == 1) {
      return;  // never calls
    }
    arena.begin(announcement(1, 120ms));
    arena.arrive(0);
    arena.awaitArrival(0, 0);
    arena.awaitArrival(1, 0);
    arena.awaitArrival(2, 0);
  });

  EXPECT_EQ(thrown[1], nullptr);
  for (const int rank : {0, 2}) {
    EXPECT_THAT(textOfThrown(thrown[static_cast<std::size_t>(rank)]),
                AllOf(HasSubstr("[TIMEOUT]"), HasSubstr("Timed out waiting 120ms"),
                      HasSubstr("Waiting for rank 1"), HasSubstr("culprits=[1]")));
  }
  EXPECT_THAT(textOf<DistTimeoutError>([&] { world.arena(1).begin(announcement()); }),
              HasSubstr("Waiting for rank 1"))
      << "later calls fail at once, with the first cause";
}

TEST(ArenaTest, GivingUpOnAnArrivalForNowEndsNothing) {
  ThreadWorld world(2);
  std::atomic<bool> gaveUp{false};
  world.run([&](Arena& arena) {
    operate(arena, [&] {
      if (arena.rank() == 0) {
        EXPECT_FALSE(arena.awaitArrival(1, 0, Deadline::after(10ms)));
        gaveUp = true;
        EXPECT_TRUE(arena.awaitArrival(1, 0, Deadline::after(20s)));
        arena.publishResult(0);
      } else {
        ASSERT_TRUE(test::eventually([&] { return gaveUp.load(); }));
        arena.arrive(0);
        arena.awaitResult(0, 0);
      }
    });
  });
}

TEST(ArenaTest, AnAbortEndsWaitsOfAllRanks) {
  ThreadWorld world(3);
  const auto thrown = world.outcomes([](Arena& arena) {
    if (arena.rank() == 0) {
      arena.wait().fail(
          {.reason = Reason::ABORTED, .culprits = {0}, .text = "rank 0 has had enough"});
      return;
    }
    arena.begin(announcement());
    arena.awaitArrival(0, 0);
  });

  for (const std::size_t rank : {1U, 2U}) {
    EXPECT_THAT(textOfThrown(thrown[rank]),
                AllOf(HasSubstr("[ABORTED]"), HasSubstr("rank 0 has had enough")));
  }
}

TEST(ArenaTest, WhoHasFinishedMayLeaveWhileOthersStillWait) {
  ThreadWorld world(3);
  std::atomic<bool> come{false};
  const auto thrown = world.outcomes([&](Arena& arena) {
    if (arena.rank() == 2) {
      // The others wait long enough to look at everybody.
      EXPECT_TRUE(test::eventually([&] { return come.load(); }));
      ::usleep(50'000);
    }
    operate(arena, [&] {
      arena.arrive(0);
      if (arena.rank() == 0) {
        return;  // needs nobody, and goes
      }
      come.store(true);
      for (int peer = 0; peer < arena.size(); ++peer) {
        arena.awaitArrival(peer, 0);
      }
    });
    if (arena.rank() == 0) {
      world.segment(0).block(0).identity.state.store(static_cast<std::uint32_t>(RankState::LEFT));
    }
  });

  EXPECT_THAT(thrown, ::testing::Each(nullptr));
  world.segment(0).block(0).identity.state.store(static_cast<std::uint32_t>(RankState::LIVE));
}

TEST(ArenaTest, WhoeverLeavesWhileNeededIsNamed) {
  ThreadWorld world(2);
  world.segment(1).block(1).identity.state.store(static_cast<std::uint32_t>(RankState::LEFT));

  EXPECT_THAT(
      textOf<DistBackendError>([&] {
        Arena& arena = world.arena(0);
        arena.begin(announcement());
        arena.awaitArrival(1, 0);
      }),
      AllOf(HasSubstr("[PEER_LEFT]"), HasSubstr("rank 1"), HasSubstr("has left the group")));
  world.segment(1).block(1).identity.state.store(static_cast<std::uint32_t>(RankState::LIVE));
}

}  // namespace
}  // namespace unisono::shm

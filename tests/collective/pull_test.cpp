// Blocks that are read in the memory of who gives them, and what happens when they cannot be.
#include <gmock/gmock.h>

#include "collective/block_samples.hpp"
#include "collective/blocks.hpp"
#include "collective/selection.hpp"
#include "store/expect.hpp"
#include "support/support.hpp"
#include "support/thread_world.hpp"

namespace unisono {
namespace {

using test::announcement;
using test::block;
using test::Bytes;
using test::everybody;
using test::ScopedEnv;
using test::textOf;
using test::ThreadWorld;
using ::testing::AllOf;
using ::testing::HasSubstr;

shm::Place at(const void* data) {
  return {.block = shm::kOwnMemory, .offset = reinterpret_cast<std::uint64_t>(data)};
}

void begin(shm::Arena& arena, shm::Place place) {
  shm::Announcement what = announcement();
  what.place = place;
  arena.begin(what);
}

/// Everybody gives size / (rank + 1) bytes to all; those of `place` are where it says.
void gatherAll(shm::Arena& arena, std::size_t size,
               const std::function<shm::Place(int rank, const Bytes& mine)>& place) {
  std::vector<Bytes> got;
  for (int peer = 0; peer < arena.size(); ++peer) {
    got.emplace_back(size / static_cast<std::size_t>(peer + 1));
  }
  const std::vector<Block> take(got.begin(), got.end());
  Bytes mine = block(arena.rank(), 0, size / static_cast<std::size_t>(arena.rank() + 1));
  begin(arena, place(arena.rank(), mine));
  shareBlocks(arena, mine, take, everybody(arena.size()));
  arena.end(true);
  std::fill(mine.begin(), mine.end(), std::byte{0xFF});  // it is ours again
  for (int peer = 0; peer < arena.size(); ++peer) {
    const Bytes& theirs = got[static_cast<std::size_t>(peer)];
    ASSERT_EQ(theirs, block(peer, 0, theirs.size())) << "of rank " << peer << ", " << size;
  }
}

/// What rank a gives to rank b is of any size, also of none.
void exchangeAll(shm::Arena& arena, std::size_t size, bool pulled) {
  const int me = arena.rank();
  const auto sizeOf = [size](int from, int to) {
    return size * static_cast<std::size_t>((from * 3 + to * 5) % 4) / 2;
  };
  std::vector<Bytes> given;
  std::vector<Bytes> got;
  for (int peer = 0; peer < arena.size(); ++peer) {
    given.push_back(block(me, peer, sizeOf(me, peer)));
    got.emplace_back(sizeOf(peer, me));
  }
  const std::vector<ConstBlock> give(given.begin(), given.end());
  const std::vector<Block> take(got.begin(), got.end());
  begin(arena, pulled ? at(nullptr) : shm::Place{});
  dealBlocks(arena, give, take, everybody(arena.size()));
  arena.end(true);
  for (Bytes& each : given) {
    std::fill(each.begin(), each.end(), std::byte{0xFF});
  }
  for (int peer = 0; peer < arena.size(); ++peer) {
    ASSERT_EQ(got[static_cast<std::size_t>(peer)], block(peer, me, sizeOf(peer, me)));
  }
}

shm::Place always(int /*rank*/, const Bytes& mine) {
  return at(mine.data());
}

constexpr std::size_t kSizes[] = {0, 1, 63, 4096, 4097, 131'072, 1'200'001};

class PullTest : public ::testing::TestWithParam<int> {
 protected:
  ThreadWorld world{GetParam()};

  /// Nobody can read rank `rank`: its word is another.
  void hide(int rank) { world.segment(rank).block(rank).proof.value[0] ^= 1U; }
};
INSTANTIATE_TEST_SUITE_P(Ranks, PullTest, ::testing::Values(2, 3, 5));

TEST_P(PullTest, BringsWhatSlotsBring) {
  world.run([&](shm::Arena& arena) {
    for (const std::size_t size : kSizes) {
      gatherAll(arena, size, always);
      exchangeAll(arena, size, true);
    }
  });
}

TEST_P(PullTest, SomeMayGiveBySlots) {
  world.run([&](shm::Arena& arena) {
    for (const std::size_t size : kSizes) {
      gatherAll(arena, size, [](int rank, const Bytes& mine) {
        return rank % 2 == 1 ? at(mine.data()) : shm::Place{};
      });
      exchangeAll(arena, size, arena.rank() % 2 == 1);
    }
  });
}

TEST_P(PullTest, WhoCannotBeReadGivesBySlots) {
  hide(GetParam() - 1);
  world.run([&](shm::Arena& arena) {
    for (const std::size_t size : kSizes) {
      gatherAll(arena, size, always);
      exchangeAll(arena, size, true);
    }
  });
}

TEST_P(PullTest, WhereNobodyCanReadAllGoesBySlots) {
  for (int rank = 0; rank < GetParam(); ++rank) {
    hide(rank);
  }
  world.run([&](shm::Arena& arena) {
    for (const std::size_t size : kSizes) {
      gatherAll(arena, size, always);
      exchangeAll(arena, size, true);
    }
    EXPECT_FALSE(arena.canPull());
  });
}

TEST_P(PullTest, AnAddressAtWhichNothingIsHarmsNobody) {
  world.run([&](shm::Arena& arena) {
    for (const std::uint64_t address : {std::uint64_t{1}, std::uint64_t{0} - 100}) {
      gatherAll(arena, 300'000, [&](int rank, const Bytes& mine) {
        return rank == 0 ? shm::Place{.block = shm::kOwnMemory, .offset = address}
                         : at(mine.data());
      });
    }
  });
}

TEST_P(PullTest, IsPossibleOnceEverybodyHasTried) {
  for (int rank = 0; rank + 1 < GetParam(); ++rank) {
    EXPECT_FALSE(world.arena(rank).canPull()) << "rank " << rank;
  }
  EXPECT_TRUE(world.arena(GetParam() - 1).canPull());
  EXPECT_TRUE(world.arena(0).canPull());
}

TEST_P(PullTest, OneThatMayNotReadIsEnough) {
  const ScopedEnv off("UNISONO_CMA", "off");
  shm::Arena blind(world.segment(0), {.cores = 1, .globalRanks = {}, .describe = nullptr});
  EXPECT_FALSE(blind.canPull());
  for (int rank = 1; rank < GetParam(); ++rank) {
    EXPECT_FALSE(world.arena(rank).canPull()) << "rank " << rank;
  }
}

TEST_P(PullTest, OneThatIsRefusedLaterEndsItForAll) {
  for (int turn = 0; turn < 2; ++turn) {
    for (int rank = 0; rank < GetParam(); ++rank) {
      EXPECT_EQ(world.arena(rank).canPull(), turn == 1 || rank + 1 == GetParam());
    }
  }
  world.run([&](shm::Arena& arena) {
    gatherAll(arena, 100, [](int rank, const Bytes& mine) {
      return rank == 0 ? at(nullptr) : at(mine.data());
    });
  });
  for (int rank = 0; rank < GetParam(); ++rank) {
    EXPECT_FALSE(world.arena(rank).canPull()) << "rank " << rank;
  }
}

TEST_P(PullTest, WhoLeavesAmidAnOperationEndsTheGroup) {
  const auto thrown = world.outcomes([&](shm::Arena& arena) {
    if (arena.rank() != 0) {
      return gatherAll(arena, 100'000, always);
    }
    const Bytes mine(100'000);
    begin(arena, at(mine.data()));
    arena.arriveInPlace();
    arena.abandon();
  });
  for (int rank = 1; rank < GetParam(); ++rank) {
    ASSERT_NE(thrown[static_cast<std::size_t>(rank)], nullptr);
    EXPECT_THAT(
        textOf<DistBackendError>(
            [&] { std::rethrow_exception(thrown[static_cast<std::size_t>(rank)]); }),
        AllOf(HasSubstr("[ABORTED]"), HasSubstr("rank 0 has left test before it was over")));
  }
}

TEST(PullSelectionTest, CanBeForcedAndForbidden) {
  const Selector usual;
  EXPECT_FALSE(usual.pulls(Movement::ALL_TO_ALL, 1000, 2));
  EXPECT_TRUE(usual.pulls(Movement::ALL_TO_ALL, 1'000'000, 2));
  EXPECT_FALSE(usual.pulls(Movement::BROADCAST, 1'000'000, 2)) << "both copy at the same time";
  EXPECT_FALSE(usual.pulls(Movement::BROADCAST, 1'000'000, 3)) << "slots are filled once for all";
  {
    const ScopedEnv pull("UNISONO_ALGO", "allreduce=flat,blocks=pull");
    const Selector selector;
    EXPECT_TRUE(selector.pulls(Movement::BROADCAST, 1, 3));
    EXPECT_FALSE(selector.pulls(Movement::BROADCAST, 0, 3));
    EXPECT_EQ(selector.allreduce({.bytes = 8, .elementSize = 4, .ranks = 2, .crowded = false}).name,
              "flat");
  }
  {
    const ScopedEnv slots("UNISONO_ALGO", "blocks=slots");
    EXPECT_FALSE(Selector().pulls(Movement::ALL_TO_ALL, 1'000'000, 2));
  }
  for (const char* wrong : {"blocks=push", "blocks=pull,allreduce=", "pull"}) {
    const ScopedEnv unknown("UNISONO_ALGO", wrong);
    EXPECT_THAT(textOf<UsageError>([] { const Selector selector; }),
                AllOf(HasSubstr("[CONFIG]"), HasSubstr(wrong), HasSubstr("blocks=slots")));
  }
}

}  // namespace
}  // namespace unisono

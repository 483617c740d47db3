// The collectives that only move data, between ranks that share nothing but messages.
#include <atomic>
#include <bit>
#include <gtest/gtest.h>

#include "base/str.hpp"
#include "collective/links/algorithms.hpp"
#include "collective/links/patterns.hpp"
#include "collective/links_samples.hpp"

namespace unisono {
namespace {

using test::block;
using test::Bytes;
using test::LinkShape;
using test::linkShapes;
using test::LoopbackCost;
using test::LoopbackWorld;
using test::nameOfShape;
using test::operate;

using Broadcast = void (*)(Communicator&, Block, int);
constexpr Broadcast kBroadcasts[] = {links::broadcastBinomial, links::broadcastScattered};
using Allgather = void (*)(Communicator&, ConstBlock, std::span<const Block>);
constexpr Allgather kAllgathers[] = {links::allgatherBruck, links::allgatherRing};
using Alltoall = void (*)(Communicator&, std::span<const ConstBlock>, std::span<const Block>);
constexpr Alltoall kAlltoalls[] = {links::alltoallDirect, links::alltoallPairwise};

/// Bytes of the block from one rank to another; some are empty.
std::size_t unequal(int from, int to) {
  return static_cast<std::size_t>((from * 5 + to * 3) % 4) * 57;
}

std::vector<Block> views(std::vector<Bytes>& blocks) {
  return {blocks.begin(), blocks.end()};
}
std::vector<ConstBlock> views(const std::vector<Bytes>& blocks) {
  return {blocks.begin(), blocks.end()};
}

class LinksBlocksTest : public ::testing::TestWithParam<LinkShape> {
 protected:
  LoopbackWorld world_{GetParam().ranks, {.room = GetParam().room}};
  const int n_ = GetParam().ranks;

  /// What `make(rank)` gives, for all ranks.
  template <typename Make>
  std::vector<Bytes> all(Make make) const {
    return test::ofEveryRank(n_, make);
  }
};
INSTANTIATE_TEST_SUITE_P(Shapes, LinksBlocksTest, ::testing::ValuesIn(linkShapes()),
                         [](const auto& shape) { return nameOfShape(shape.param); });

TEST_P(LinksBlocksTest, BroadcastGivesEverybodyWhatTheRootHas) {
  world_.run([&](Communicator& comm) {
    for (const Broadcast broadcast : kBroadcasts) {
      for (const int root : {0, n_ - 1, n_ / 2}) {
        for (const std::size_t size : {0U, 1U, 7U, 1000U, 4099U}) {
          const Bytes right = block(root, 0, size);
          Bytes data = comm.rank() == root ? right : Bytes(size);
          operate(comm, [&] { broadcast(comm, data, root); });
          ASSERT_EQ(data, right) << size << " bytes of " << root << " on " << comm.rank();
        }
      }
    }
  });
}

TEST_P(LinksBlocksTest, AllGatherGivesEverybodyAllBlocksOfAnySize) {
  const auto blocks = all([](int rank) { return block(rank, 0, unequal(rank, 1)); });
  world_.run([&](Communicator& comm) {
    for (const Allgather allgather : kAllgathers) {
      for (const bool inPlace : {false, true}) {
        const auto me = static_cast<std::size_t>(comm.rank());
        std::vector<Bytes> taken = all([](int rank) { return Bytes(unequal(rank, 1)); });
        if (inPlace) {
          taken[me] = blocks[me];
        }
        operate(comm, [&] {
          allgather(comm, inPlace ? ConstBlock(taken[me]) : ConstBlock(blocks[me]), views(taken));
        });
        ASSERT_EQ(taken, blocks) << "on " << comm.rank();
      }
    }
  });
}

TEST_P(LinksBlocksTest, GatherAndScatterAreTheWayToTheRootAndBack) {
  world_.run([&](Communicator& comm) {
    for (const int root : {0, n_ - 1}) {
      const bool isRoot = comm.rank() == root;
      const auto blocks = all([](int rank) { return block(rank, 1, unequal(rank, 2)); });
      const Bytes& mine = blocks[static_cast<std::size_t>(comm.rank())];
      std::vector<Bytes> taken = all([](int rank) { return Bytes(unequal(rank, 2)); });
      operate(comm, [&] {
        links::gatherDirect(comm, mine, isRoot ? views(taken) : std::vector<Block>(), root);
      });
      if (isRoot) {
        ASSERT_EQ(taken, blocks);
      }
      Bytes back(mine.size());
      const std::vector<Bytes>& given = taken;
      operate(comm, [&] {
        links::scatterDirect(comm, isRoot ? views(given) : std::vector<ConstBlock>(), back, root);
      });
      ASSERT_EQ(back, mine) << "on " << comm.rank();
    }
  });
}

TEST_P(LinksBlocksTest, AllToAllGivesEverybodyItsBlockOfEverybody) {
  world_.run([&](Communicator& comm) {
    const int me = comm.rank();
    const std::vector<Bytes> given = all([&](int to) { return block(me, to, unequal(me, to)); });
    const std::vector<Bytes> right =
        all([&](int from) { return block(from, me, unequal(from, me)); });
    // The third time ranks take different ways.
    for (const bool pairwise : {false, true, me % 2 == 1}) {
      std::vector<Bytes> taken = all([&](int from) { return Bytes(unequal(from, me)); });
      operate(comm, [&] { kAlltoalls[pairwise ? 1 : 0](comm, views(given), views(taken)); });
      ASSERT_EQ(taken, right) << "on " << me;
    }
  });
}

TEST_P(LinksBlocksTest, NobodyLeavesABarrierBeforeAllHaveCome) {
  std::atomic<int> came{0};
  world_.run([&](Communicator& comm) {
    for (int turn = 1; turn <= 5; ++turn) {
      came.fetch_add(1);
      operate(comm, [&] { links::barrierDissemination(comm); });
      ASSERT_GE(came.load(), turn * n_);
    }
  });
}

class LinksBlocksCostTest : public ::testing::TestWithParam<int> {
 protected:
  static constexpr std::size_t kBlock = 1000;
  static constexpr std::size_t kData = 64 * 9 * 16 * 5 * 7;  // shares are equal
  const int n_ = GetParam();
  LoopbackWorld world_{GetParam()};

  std::size_t ranks() const { return static_cast<std::size_t>(n_); }
  std::size_t doublings() const { return static_cast<std::size_t>(std::bit_width(ranks() - 1)); }
  LoopbackCost all(std::size_t messages, std::size_t flights) const {
    return {.bytes = (ranks() - 1) * kBlock, .messages = messages, .flights = flights};
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, LinksBlocksCostTest,
                         ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 16));

TEST_P(LinksBlocksCostTest, ATreeSendsTheDataOnceToEachRank) {
  const int root = n_ / 3;
  world_.run([&](Communicator& comm) {
    Bytes data(kBlock);
    operate(comm, [&] { links::broadcastBinomial(comm, data, root); });
  });

  EXPECT_EQ(world_.total(),
            (LoopbackCost{.bytes = (ranks() - 1) * kBlock,
                          .messages = ranks() - 1,
                          .flights = static_cast<std::size_t>(std::bit_width(ranks()) - 1)}));
  EXPECT_EQ(world_.cost(root).messages, doublings());
}

TEST_P(LinksBlocksCostTest, ScatteredTheRootSendsTheDataTwiceLessAShare) {
  const int root = n_ / 3;
  world_.run([&](Communicator& comm) {
    Bytes data(kData);
    operate(comm, [&] { links::broadcastScattered(comm, data, root); });
  });

  const std::size_t lessAShare = kData - kData / ranks();
  for (int rank = 0; rank < n_; ++rank) {
    const auto place = static_cast<std::size_t>((rank - root + n_) % n_);
    const std::size_t times = place == 0 ? 2 : place == ranks() - 1 ? 0 : 1;
    EXPECT_EQ(world_.cost(rank), (LoopbackCost{.bytes = times * lessAShare,
                                               .messages = times * (ranks() - 1),
                                               .flights = place}));
  }
}

TEST_P(LinksBlocksCostTest, GatheredByAllEveryBlockIsReceivedOnceByEach) {
  for (const bool ring : {false, true}) {
    world_.resetCosts();
    world_.run([&](Communicator& comm) {
      const Bytes mine(kBlock);
      std::vector<Bytes> taken(ranks(), Bytes(kBlock));
      operate(comm, [&] { kAllgathers[ring ? 1 : 0](comm, mine, views(taken)); });
    });

    const std::size_t steps = ring ? ranks() - 1 : doublings();
    for (int rank = 0; rank < n_; ++rank) {
      EXPECT_EQ(world_.cost(rank), all(steps, steps));
    }
  }
}

TEST_P(LinksBlocksCostTest, EveryBlockGoesStraightToWhomItIsFor) {
  for (const bool pairwise : {false, true}) {
    world_.resetCosts();
    world_.run([&](Communicator& comm) {
      const std::vector<Bytes> given(ranks(), Bytes(kBlock));
      std::vector<Bytes> taken = given;
      operate(comm, [&] { kAlltoalls[pairwise ? 1 : 0](comm, views(given), views(taken)); });
    });

    for (int rank = 0; rank < n_; ++rank) {
      EXPECT_EQ(world_.cost(rank),
                all(ranks() - 1, pairwise ? ranks() - 1 : std::min<std::size_t>(ranks() - 1, 1)));
    }
  }
}

TEST_P(LinksBlocksCostTest, TheRootSendsOrReceivesAllBlocksInOneFlight) {
  const int root = n_ / 2;
  world_.run([&](Communicator& comm) {
    const Bytes mine(kBlock);
    std::vector<Bytes> taken(ranks(), Bytes(kBlock));
    operate(comm, [&] { links::gatherDirect(comm, mine, views(taken), root); });
  });
  EXPECT_EQ(world_.total(), all(ranks() - 1, std::min<std::size_t>(ranks() - 1, 1)));
  EXPECT_EQ(world_.cost(root).messages, 0U);

  world_.resetCosts();
  world_.run([&](Communicator& comm) {
    const std::vector<Bytes> given(ranks(), Bytes(kBlock));
    Bytes out(kBlock);
    operate(comm, [&] { links::scatterDirect(comm, views(given), out, root); });
  });
  EXPECT_EQ(world_.total(), all(ranks() - 1, std::min<std::size_t>(ranks() - 1, 1)));
  EXPECT_EQ(world_.cost(root).messages, ranks() - 1);
}

TEST_P(LinksBlocksCostTest, ABarrierTakesAMessageForEachDoubling) {
  world_.run([](Communicator& comm) { operate(comm, [&] { links::barrierDissemination(comm); }); });

  for (int rank = 0; rank < n_; ++rank) {
    EXPECT_EQ(world_.cost(rank),
              (LoopbackCost{.bytes = 0, .messages = doublings(), .flights = doublings()}));
  }
}

}  // namespace
}  // namespace unisono

#include "collective/blocks.hpp"

#include <gmock/gmock.h>
#include <numeric>

#include "collective/barrier.hpp"
#include "collective/block_samples.hpp"
#include "collective/rank_counts.hpp"
#include "collective/reduce_scatter.hpp"
#include "collective/shares.hpp"
#include "store/expect.hpp"
#include "support/thread_world.hpp"

namespace unisono {
namespace {

using test::block;
using test::Bytes;
using test::everybody;
using test::operate;
using test::textOf;
using test::ThreadWorld;
using ::testing::AllOf;
using ::testing::HasSubstr;

class BlocksTest : public ::testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }
  std::size_t count() const { return static_cast<std::size_t>(ranks()); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, BlocksTest, ::testing::ValuesIn(test::kRankCounts));

constexpr std::size_t kSizes[] = {0, 1, 63, 64, 65, 4096, 4097, 40'000, 1'000'003};

TEST_P(BlocksTest, EverybodyGetsEverybodysBlock) {
  ThreadWorld world(ranks());
  world.run([&](shm::Arena& arena) {
    for (const std::size_t size : kSizes) {
      // Of different sizes: rank p gives size / (p + 1).
      std::vector<Bytes> got;
      for (int peer = 0; peer < ranks(); ++peer) {
        got.emplace_back(size / static_cast<std::size_t>(peer + 1));
      }
      const std::vector<Block> take(got.begin(), got.end());
      const Bytes mine = block(arena.rank(), 0, size / static_cast<std::size_t>(arena.rank() + 1));
      operate(arena, [&] { shareBlocks(arena, mine, take, everybody(ranks())); });
      for (int peer = 0; peer < ranks(); ++peer) {
        const Bytes& theirs = got[static_cast<std::size_t>(peer)];
        ASSERT_EQ(theirs, block(peer, 0, theirs.size())) << "of rank " << peer;
      }
    }
  });
}

TEST_P(BlocksTest, LinesBringTheSame) {
  ThreadWorld world(ranks());
  world.run([&](shm::Arena& arena) {
    for (const std::size_t size : {0U, 1U, 55U, 56U, 57U, 1000U, 4144U}) {
      const Bytes mine = block(arena.rank(), 0, size);
      Bytes all(size * count());
      operate(arena, [&] { shareLines(arena, mine, all, everybody(ranks())); });
      for (int peer = 0; peer < ranks(); ++peer) {
        const auto at = all.begin() + static_cast<std::ptrdiff_t>(size) * peer;
        ASSERT_EQ(Bytes(at, at + static_cast<std::ptrdiff_t>(size)), block(peer, 0, size));
      }
      for (int root = 0; root < ranks(); ++root) {  // who gives need not hear the others
        Bytes one(size);
        operate(
            arena, [&] { shareLines(arena, mine, one, std::span(&root, 1)); }, false);
        ASSERT_EQ(one, block(root, 0, size)) << "of rank " << root;
      }
    }
  });
}

TEST_P(BlocksTest, LinesBringTheRootBlocksOfAnySize) {
  ThreadWorld world(ranks());
  world.run([&](shm::Arena& arena) {
    int root = 0;
    for (const std::size_t size : {0U, 1U, 55U, 56U, 57U, 1000U, 4144U}) {
      root = (root + 1) % ranks();
      const auto sizeOf = [&](int rank) { return size / static_cast<std::size_t>(rank + 1); };
      const bool isRoot = arena.rank() == root;
      std::vector<Bytes> got;
      for (int peer = 0; peer < ranks(); ++peer) {
        got.emplace_back(isRoot ? sizeOf(peer) : 0);
      }
      const std::vector<Block> take(got.begin(), got.end());
      const Bytes mine = block(arena.rank(), 0, sizeOf(arena.rank()));
      const std::vector<int> givers = isRoot ? everybody(ranks()) : std::vector{arena.rank()};
      operate(
          arena, [&] { shareLines(arena, mine, take, givers); }, isRoot);
      for (int peer = 0; isRoot && peer < ranks(); ++peer) {
        ASSERT_EQ(got[static_cast<std::size_t>(peer)], block(peer, 0, sizeOf(peer)));
      }
    }
  });
}

TEST_P(BlocksTest, EverybodyGetsTheRootsBlock) {
  ThreadWorld world(ranks());
  world.run([&](shm::Arena& arena) {
    int root = 0;
    for (int turn = 0; turn < 3; ++turn) {
      for (const std::size_t size : kSizes) {
        root = (root + 1) % ranks();
        Bytes data = arena.rank() == root ? block(root, 0, size) : Bytes(size);
        std::vector<Block> take(count());
        take[static_cast<std::size_t>(root)] = data;
        const ConstBlock mine = arena.rank() == root ? ConstBlock(data) : ConstBlock();
        const std::vector<int> giver = {root};
        operate(
            arena, [&] { shareBlocks(arena, mine, take, giver); }, false);
        ASSERT_EQ(data, block(root, 0, size));
      }
    }
  });
}

TEST_P(BlocksTest, TheRootGetsEverybodysBlock) {
  ThreadWorld world(ranks());
  world.run([&](shm::Arena& arena) {
    int root = 0;
    for (const std::size_t size : kSizes) {
      root = (root + 1) % ranks();
      const bool isRoot = arena.rank() == root;
      std::vector<Bytes> got(count(), Bytes(isRoot ? size : 0));
      const std::vector<Block> take(got.begin(), got.end());
      const Bytes mine = block(arena.rank(), 0, size);
      const std::vector<int> givers = isRoot ? everybody(ranks()) : std::vector{arena.rank()};
      operate(
          arena, [&] { shareBlocks(arena, mine, take, givers); }, isRoot);
      for (int peer = 0; isRoot && peer < ranks(); ++peer) {
        ASSERT_EQ(got[static_cast<std::size_t>(peer)], block(peer, 0, size));
      }
    }
  });
}

TEST_P(BlocksTest, ReduceScatterGivesEachItsShareOfTheSum) {
  ThreadWorld world(ranks());
  const Reduction sum = Reduction::of(DType::INT32, ReduceOp::SUM, ranks());
  world.run([&](shm::Arena& arena) {
    for (const std::size_t elements : {0U, 1U, 13U, 14U, 15U, 16U, 17U, 45U, 1000U, 40'000U}) {
      // Rank p gets elements + p.
      std::vector<std::vector<std::int32_t>> mine;
      std::vector<ConstBlock> give;
      for (int peer = 0; peer < ranks(); ++peer) {
        mine.emplace_back(elements + static_cast<std::size_t>(peer));
        std::iota(mine.back().begin(), mine.back().end(), peer * 1000 + arena.rank());
      }
      for (const auto& part : mine) {
        give.push_back(std::as_bytes(std::span(part)));
      }
      auto& out = mine[static_cast<std::size_t>(arena.rank())];  // in place
      const bool byLines = mine.back().size() * sizeof(std::int32_t) <=
                           mostOfReduceScatterLines(ranks(), sizeof(std::int32_t));
      // By turns with the other way: what one leaves behind does not confuse the other.
      const auto reduce = byLines && elements % 2 == 1 ? &reduceScatterLines : &reduceScatterSlots;
      operate(arena, [&] { reduce(arena, give, std::as_writable_bytes(std::span(out)), sum); });
      for (std::size_t i = 0; i < out.size(); ++i) {
        const int right =
            ranks() * (arena.rank() * 1000 + static_cast<int>(i)) + ranks() * (ranks() - 1) / 2;
        ASSERT_EQ(out[i], right) << "element " << i;
      }
    }
  });
}

TEST(SharesTest, CountsRoundsAndElementsAsADivisionWould) {
  for (const std::size_t chunk : {1U, 56U, 4096U}) {
    for (std::size_t bytes = 0; bytes < 300; ++bytes) {
      EXPECT_EQ(roundsFor(bytes, chunk), (bytes + chunk - 1) / chunk) << bytes << " by " << chunk;
    }
  }
  for (const std::size_t width : {1U, 2U, 4U, 8U, 16U}) {
    EXPECT_EQ(wholeElements(shm::LlLine::kPayload, width), shm::LlLine::kPayload / width * width);
    EXPECT_EQ(elementsOf(7 * width, width), 7U);
  }
}

TEST(ManyRanksTest, PiecesFitHoweverManyThereAre) {
  for (const std::size_t ranks : {1U, 2U, 227U, 228U, 257U, 1000U, 1024U}) {
    const std::size_t chunk = shm::kLeastChunk;
    const std::size_t table = (ranks * sizeof(std::uint64_t) + 63) / 64 * 64;
    EXPECT_LE(table + ranks * sizeof(std::uint64_t), chunk) << ranks << ": places instead";
    EXPECT_GT(pieceFor(chunk - table, ranks), 0U) << ranks;
    EXPECT_LE(pieceFor(chunk - table, ranks) * ranks, chunk - table) << ranks;
    EXPECT_GE(pieceFor(chunk, ranks), 16U) << ranks << ": the largest elements";
  }
}

TEST_P(BlocksTest, NobodyLeavesABarrierBeforeEverybodyHasCome) {
  for (const int cores : {1, ranks()}) {
    ThreadWorld world(ranks(), {.cores = cores});
    std::atomic<int> come{0};
    world.run([&](shm::Arena& arena) {
      for (int turn = 1; turn <= 100; ++turn) {
        come.fetch_add(1);
        operate(arena, [&] { barrierArena(arena); });
        ASSERT_GE(come.load(), turn * ranks());
      }
    });
  }
}

}  // namespace
}  // namespace unisono

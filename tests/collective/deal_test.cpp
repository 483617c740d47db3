#include <gmock/gmock.h>

#include "base/str.hpp"
#include "collective/barrier.hpp"
#include "collective/block_samples.hpp"
#include "collective/blocks.hpp"
#include "collective/rank_counts.hpp"
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
using ::testing::HasSubstr;

class DealTest : public ::testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }
  std::size_t count() const { return static_cast<std::size_t>(ranks()); }
  /// Blocks of how many bytes go by lines: none, some of those of a call, all small ones.
  std::vector<std::size_t> limits() const { return {0, 60, mostOfDealtLines(ranks())}; }
};
INSTANTIATE_TEST_SUITE_P(Ranks, DealTest, ::testing::ValuesIn(test::kRankCounts));

constexpr std::size_t kSizes[] = {0,  1,  47,  48,   49,   63,     64,
                                  65, 96, 450, 4096, 4097, 40'000, 1'000'003};

struct Case {
  std::size_t size;
  std::size_t mostByLines;
};
/// Every size with every limit that makes a difference to a call with blocks of half that size.
std::vector<Case> cases(const std::vector<std::size_t>& limits) {
  std::vector<Case> all;
  for (const std::size_t size : kSizes) {
    for (const std::size_t limit : limits) {
      if (limit == 0 || limit >= size / 2) {
        all.push_back({size, limit});
      }
    }
  }
  return all;
}

TEST_P(DealTest, EverybodyGetsItsOwnOfEverybodysBlocks) {
  ThreadWorld world(ranks());
  // What rank a gives to rank b is of any size.
  const auto sizeOf = [](std::size_t size, int from, int to) {
    return size * static_cast<std::size_t>((from * 3 + to * 5) % 4) / 2;
  };
  world.run([&](shm::Arena& arena) {
    const int me = arena.rank();
    for (const Case& each : cases(limits())) {
      const std::size_t size = each.size;
      std::vector<Bytes> given;
      std::vector<Bytes> got;
      for (int peer = 0; peer < ranks(); ++peer) {
        given.push_back(block(me, peer, sizeOf(size, me, peer)));
        got.emplace_back(sizeOf(size, peer, me));
      }
      const std::vector<ConstBlock> give(given.begin(), given.end());
      const std::vector<Block> take(got.begin(), got.end());
      operate(arena, [&] { dealBlocks(arena, give, take, everybody(ranks()), each.mostByLines); });
      for (int peer = 0; peer < ranks(); ++peer) {
        ASSERT_EQ(got[static_cast<std::size_t>(peer)], block(peer, me, sizeOf(size, peer, me)));
      }
    }
  });
}

TEST_P(DealTest, EverybodyGetsItsOwnOfTheRootsBlocks) {
  ThreadWorld world(ranks());
  world.run([&](shm::Arena& arena) {
    int root = 0;
    for (const Case& each : cases(limits())) {
      const std::size_t size = each.size;
      root = (root + 1) % ranks();
      const bool isRoot = arena.rank() == root;
      std::vector<Bytes> given;
      for (int peer = 0; peer < ranks(); ++peer) {
        given.push_back(isRoot ? block(root, peer, size) : Bytes());
      }
      Bytes got(size);
      const std::vector<ConstBlock> give(given.begin(), given.end());
      std::vector<Block> take(count());
      take[static_cast<std::size_t>(root)] = got;
      const std::vector<int> giver = {root};
      operate(
          arena, [&] { dealBlocks(arena, give, take, giver, each.mostByLines); }, false);
      ASSERT_EQ(got, block(root, arena.rank(), size));
    }
  });
}

/// Rank 0 gives `given` bytes to rank 1, which expects `expected`.
void expectMismatch(std::size_t given, std::size_t expected, std::size_t mostByLines) {
  SCOPED_TRACE(::testing::Message() << given << " bytes for " << expected);
  ThreadWorld world(2);
  const auto thrown = world.outcomes([&](shm::Arena& arena) {
    const bool first = arena.rank() == 0;
    const Bytes mine(first ? given : expected);
    Bytes other(expected);
    const std::vector<ConstBlock> give = {first ? ConstBlock() : mine, first ? mine : ConstBlock()};
    std::vector<Block> take(2);
    take[first ? 1 : 0] = other;
    const std::vector<int> both = {0, 1};
    operate(arena, [&] { dealBlocks(arena, give, take, both, mostByLines); });
    operate(arena, [&] { barrierArena(arena); });
  });

  for (const std::exception_ptr& each : thrown) {
    ASSERT_NE(each, nullptr);
    const std::string text = textOf<DistBackendError>([&] { std::rethrow_exception(each); });
    EXPECT_THAT(text, HasSubstr("[MISMATCH]"));
    EXPECT_THAT(text,
                HasSubstr(str("gives ", given, " bytes to rank 1, which expects ", expected)));
  }
}

TEST(DealSizesTest, TellsBothSidesWhenTheyMeanDifferentSizes) {
  expectMismatch(100, 50, 0);
  expectMismatch(100, 50, 200);
  expectMismatch(0, 50, 200);
}

TEST(DealSizesTest, TellsWhenOneMeansLinesAndTheOtherSlots) {
  expectMismatch(100, 50, 60);
  expectMismatch(50, 100, 60);
  expectMismatch(100'000, 0, 60);
}

}  // namespace
}  // namespace unisono

// Both ways to do a reduce-scatter give the bits of reducing in the order of the ranks.
#include "collective/reduce_scatter.hpp"

#include <gmock/gmock.h>

#include "collective/rank_counts.hpp"
#include "collective/reduction_samples.hpp"
#include "support/thread_world.hpp"

namespace unisono {
namespace {

using test::contribution;
using test::operate;
using test::ThreadWorld;

class ReduceScatterTest : public ::testing::TestWithParam<int> {
 protected:
  const int ranks_ = GetParam();
  ThreadWorld world_{GetParam()};

  /// Blocks of one vector: rank r gets `elements` of them, and r % 3 more.
  std::size_t blockOf(int rank, std::size_t elements) const {
    return elements + static_cast<std::size_t>(rank % 3);
  }

  void check(DType type, ReduceOp op, std::size_t elements, bool byLines, bool inPlace) {
    const Reduction reduction = Reduction::of(type, op, ranks_);
    const std::size_t width = reduction.elementSize();
    if (byLines && blockOf(2, elements) * width > mostOfReduceScatterLines(ranks_, width)) {
      return;
    }
    std::vector<std::size_t> starts(1);
    for (int rank = 0; rank < ranks_; ++rank) {
      starts.push_back(starts.back() + blockOf(rank, elements) * width);
    }
    const std::vector<std::byte> right =
        test::expected(ranks_, starts.back() / width, type, reduction);
    world_.run([&](shm::Arena& arena) {
      std::vector<std::byte> whole = contribution(arena.rank(), starts.back() / width, type);
      std::vector<ConstBlock> give;
      for (std::size_t r = 0; r + 1 < starts.size(); ++r) {
        give.push_back(std::span(whole).subspan(starts[r], starts[r + 1] - starts[r]));
      }
      const auto me = static_cast<std::size_t>(arena.rank());
      std::vector<std::byte> other(give[me].size());
      const Block out = inPlace ? std::span(whole).subspan(starts[me], other.size()) : Block(other);
      operate(arena, [&] {
        (byLines ? reduceScatterLines : reduceScatterSlots)(arena, give, out, reduction);
      });
      ASSERT_TRUE(std::equal(out.begin(), out.end(),
                             right.begin() + static_cast<std::ptrdiff_t>(starts[me])))
          << name(type) << " " << elements << " elements" << (byLines ? " by lines" : "");
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, ReduceScatterTest, ::testing::ValuesIn(test::kRankCounts));

// Sizes take turns: over the numbers of ranks each pair of type and operation meets each.
TEST_P(ReduceScatterTest, DoesEveryOperationOnEveryType) {
  auto turn = static_cast<std::size_t>(ranks_);
  test::forEveryReduction([&](DType type, ReduceOp op) {
    ++turn;
    const bool inPlace = turn % 2 == 0;
    check(type, op, test::kOddCounts[turn % test::kOddCounts.size()], false, inPlace);
    check(type, op, test::kOddCounts[turn % 4], true, !inPlace);
  });
}

}  // namespace
}  // namespace unisono

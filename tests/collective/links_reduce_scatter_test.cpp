// reduce_scatter between ranks that share nothing but messages.
#include <gtest/gtest.h>

#include "base/str.hpp"
#include "collective/links/algorithms.hpp"
#include "collective/links_samples.hpp"
#include "collective/shares.hpp"

namespace unisono {
namespace {

using test::Bytes;
using test::LinkShape;
using test::linkShapes;
using test::LoopbackCost;
using test::LoopbackWorld;
using test::nameOfShape;
using test::ofEveryRank;
using test::operate;
using test::reduced;
using test::wholeNumbers;

using ReduceScatter = void (*)(Communicator&, std::span<const ConstBlock>, Block, const Stepwise&);
void pairwiseInRounds(Communicator& comm, std::span<const ConstBlock> give, Block out,
                      const Stepwise& reduction) {
  links::reduceScatterPairwise(comm, give, out, reduction, 512 * give.size());
}
constexpr ReduceScatter kAlgorithms[] = {links::reduceScatterDirect, links::reduceScatterPairwise,
                                         pairwiseInRounds, links::reduceScatterRing};
constexpr std::span<const ReduceScatter> kInOrderOfRanks = std::span(kAlgorithms).first(3);

/// Elements of the block of `rank`: the last is long, some are empty.
std::size_t unequal(int rank, int ranks) {
  return rank == ranks - 1 ? 201 : static_cast<std::size_t>(rank % 3) * 19;
}

class LinksReduceScatterTest : public ::testing::TestWithParam<LinkShape> {
 protected:
  LoopbackWorld world_{GetParam().ranks, {.room = GetParam().room}};
  const int n_ = GetParam().ranks;

  template <typename Elements>
  static std::vector<Range> rangesOf(Elements elements, int ranks, std::size_t width) {
    std::vector<Range> ranges;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::size_t begin = ranges.empty() ? 0 : ranges.back().end();
      ranges.push_back({begin, elements(rank) * width});
    }
    return ranges;
  }

  /// Compares with reducing in the order of the ring, from the rank `first(owner)` on.
  template <typename First>
  void check(ReduceScatter algorithm, const std::vector<Bytes>& all,
             const std::vector<Range>& ranges, const Stepwise& reduction, First first) {
    const std::size_t width = reduction.elementSize();
    world_.run([&](Communicator& comm) {
      for (const bool inPlace : {false, true}) {
        const auto me = static_cast<std::size_t>(comm.rank());
        Bytes in = all[me];
        Bytes out(ranges[me].size);
        std::vector<ConstBlock> give;
        for (const Range& range : ranges) {
          give.push_back(ConstBlock(in).subspan(range.begin, range.size));
        }
        const Block into =
            inPlace ? Block(in).subspan(ranges[me].begin, ranges[me].size) : Block(out);
        operate(comm, [&] { algorithm(comm, give, into, reduction); });
        const Bytes right = reduced(all, reduction.whole(), first(comm.rank()),
                                    ranges[me].begin / width, ranges[me].end() / width);
        ASSERT_EQ(Bytes(into.begin(), into.end()), right) << "rank " << comm.rank();
        if (!inPlace) {
          ASSERT_EQ(in, all[me]) << "what is given is left alone";
        }
      }
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Shapes, LinksReduceScatterTest, ::testing::ValuesIn(linkShapes()),
                         [](const auto& shape) { return nameOfShape(shape.param); });

TEST_P(LinksReduceScatterTest, GivesEveryRankTheReductionOfItsBlocks) {
  for (const DType type : {DType::FLOAT16, DType::INT64}) {
    for (const ReduceOp op : {ReduceOp::SUM, ReduceOp::AVG}) {
      const auto ranges =
          rangesOf([&](int rank) { return unequal(rank, n_); }, n_, elementSize(type));
      const auto all = ofEveryRank(n_, [&](int rank) {
        return wholeNumbers(type, rank, ranges.back().end() / elementSize(type));
      });
      for (const ReduceScatter algorithm : kAlgorithms) {
        check(algorithm, all, ranges, Stepwise::of(type, op, n_), [](int) { return 0; });
      }
    }
  }
}

TEST_P(LinksReduceScatterTest, ToItsOwnerABlockIsReducedInTheOrderOfRanksAndRoundedOnce) {
  for (const DType type : {DType::BFLOAT16, DType::FLOAT64}) {
    for (const ReduceOp op : {ReduceOp::SUM, ReduceOp::AVG, ReduceOp::MAX}) {
      const auto ranges =
          rangesOf([&](int rank) { return unequal(rank, n_); }, n_, elementSize(type));
      const auto all = ofEveryRank(n_, [&](int rank) {
        return samples(type, ranges.back().end() / elementSize(type),
                       static_cast<unsigned>(rank) + 17);
      });
      for (const ReduceScatter algorithm : kInOrderOfRanks) {
        check(algorithm, all, ranges, Stepwise::of(type, op, n_), [](int) { return 0; });
      }
    }
  }
}

TEST_P(LinksReduceScatterTest, OnARingItsOwnerComesLast) {
  const auto ranges = rangesOf([](int) { return std::size_t{37}; }, n_, 4);
  const auto all = ofEveryRank(n_, [&](int rank) {
    return samples(DType::FLOAT32, ranges.back().end() / 4, static_cast<unsigned>(rank) + 27);
  });
  for (const ReduceOp op : {ReduceOp::SUM, ReduceOp::AVG, ReduceOp::MIN}) {
    check(links::reduceScatterRing, all, ranges, Stepwise::of(DType::FLOAT32, op, n_),
          [&](int owner) { return (owner + 1) % n_; });
  }
}

class LinksReduceScatterCostTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, LinksReduceScatterCostTest,
                         ::testing::Values(1, 2, 3, 4, 5, 8, 9, 16));

TEST_P(LinksReduceScatterCostTest, SendsEveryBlockOfOthersOnce) {
  const auto ranks = static_cast<std::size_t>(GetParam());
  constexpr std::size_t kBlock = 1000;
  struct Kind {
    ReduceScatter algorithm;
    std::size_t rounds;
    std::size_t flights;
  };
  const std::size_t rounds = 2;  // 512 bytes of each are held back
  const Kind kinds[] = {{links::reduceScatterDirect, 1, ranks > 1 ? 1U : 0U},
                        {links::reduceScatterPairwise, 1, ranks - 1},
                        {pairwiseInRounds, rounds, rounds * (ranks - 1)},
                        {links::reduceScatterRing, 1, ranks - 1}};
  for (const Kind& kind : kinds) {
    LoopbackWorld world(GetParam());
    world.run([&](Communicator& comm) {
      const Bytes in(kBlock);
      Bytes out(kBlock);
      const std::vector<ConstBlock> give(ranks, in);
      const Stepwise sum = Stepwise::of(DType::INT64, ReduceOp::SUM, comm.size());
      operate(comm, [&] { kind.algorithm(comm, give, out, sum); });
    });
    for (int rank = 0; rank < GetParam(); ++rank) {
      EXPECT_EQ(world.cost(rank), (LoopbackCost{.bytes = (ranks - 1) * kBlock,
                                                .messages = (ranks - 1) * kind.rounds,
                                                .flights = kind.flights}));
    }
  }
}

}  // namespace
}  // namespace unisono

// all_reduce and reduce between ranks that share nothing but messages.
#include <bit>
#include <functional>
#include <gtest/gtest.h>
#include <random>

#include "base/str.hpp"
#include "collective/links/algorithms.hpp"
#include "collective/links/patterns.hpp"
#include "collective/links_samples.hpp"

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

using Allreduce = void (*)(Communicator&, Block, const Stepwise&);
constexpr Allreduce kAllreduces[] = {links::allreduceDoubling, links::allreduceHalving,
                                     links::allreduceRing, links::allreduceGathered};
using Reduce = void (*)(Communicator&, ConstBlock, Block, int, const Stepwise&);
constexpr Reduce kReduces[] = {links::reduceBinomial, links::reduceRing};

class LinksAllreduceTest : public ::testing::TestWithParam<LinkShape> {
 protected:
  LoopbackWorld world_{GetParam().ranks, {.room = GetParam().room}};
  const int n_ = GetParam().ranks;

  std::vector<Bytes> run(Allreduce algorithm, const std::vector<Bytes>& all,
                         const Stepwise& reduction) {
    std::vector<Bytes> results = all;
    world_.run([&](Communicator& comm) {
      Bytes& data = results[static_cast<std::size_t>(comm.rank())];
      operate(comm, [&] { algorithm(comm, data, reduction); });
    });
    return results;
  }

  void expectWhole(DType type, ReduceOp op, std::size_t elements) {
    const auto all = ofEveryRank(n_, [&](int rank) { return wholeNumbers(type, rank, elements); });
    const Stepwise reduction = Stepwise::of(type, op, n_);
    const Bytes right = reduced(all, reduction.whole());
    std::vector<std::vector<Bytes>> results(std::size(kAllreduces), all);
    world_.run([&](Communicator& comm) {
      for (std::size_t i = 0; i < results.size(); ++i) {
        operate(comm, [&] {
          kAllreduces[i](comm, results[i][static_cast<std::size_t>(comm.rank())], reduction);
        });
      }
    });
    for (std::size_t i = 0; i < results.size(); ++i) {
      for (const Bytes& result : results[i]) {
        ASSERT_EQ(result, right) << name(type) << " " << elements << " by algorithm " << i;
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Shapes, LinksAllreduceTest, ::testing::ValuesIn(linkShapes()),
                         [](const auto& shape) { return nameOfShape(shape.param); });

TEST_P(LinksAllreduceTest, GivesEveryRankTheReductionOfAll) {
  for (const std::size_t elements : {0U, 1U, 7U, 16U, 17U, 1000U}) {
    expectWhole(DType::FLOAT32, ReduceOp::SUM, elements);
  }
  expectWhole(DType::FLOAT32, ReduceOp::AVG, 333);
  expectWhole(DType::FLOAT16, ReduceOp::AVG, 257);
  expectWhole(DType::INT8, ReduceOp::AVG, 100);
  expectWhole(DType::INT64, ReduceOp::PRODUCT, 65);
  expectWhole(DType::BFLOAT16, ReduceOp::MAX, 129);
  expectWhole(DType::BOOL, ReduceOp::SUM, 70);
  expectWhole(DType::UINT8, ReduceOp::BXOR, 70);
  expectWhole(DType::COMPLEX128, ReduceOp::SUM, 50);
}

TEST_P(LinksAllreduceTest, GivesAllRanksTheSameBitsInEveryRun) {
  for (const DType type : {DType::FLOAT32, DType::FLOAT16, DType::BFLOAT16}) {
    for (const ReduceOp op : {ReduceOp::SUM, ReduceOp::AVG}) {
      const auto all = ofEveryRank(
          n_, [&](int rank) { return samples(type, 301, static_cast<unsigned>(rank) + 7); });
      const Stepwise reduction = Stepwise::of(type, op, n_);
      for (const Allreduce algorithm : kAllreduces) {
        const std::vector<Bytes> first = run(algorithm, all, reduction);
        for (const Bytes& each : first) {
          ASSERT_EQ(each, first[0]) << name(type);
        }
        ASSERT_EQ(run(algorithm, all, reduction), first) << name(type);
      }
    }
  }
}

/// Zeros of both signs, and a NaN here and there.
Bytes zerosAndNan(DType type, std::size_t elements, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(elements * elementSize(type));
  for (std::size_t i = 0; i < elements; ++i) {
    // The sign, and for NaN all bits of the exponent and some more, are in the last byte.
    const auto draw = random() % 32;
    bytes[(i + 1) * elementSize(type) - 1] = std::byte(draw == 0 ? 0x7F : draw % 2 == 0 ? 0x80 : 0);
    bytes[(i + 1) * elementSize(type) - 2] = std::byte(draw == 0 ? 0xFF : 0);
  }
  return bytes;
}

TEST_P(LinksAllreduceTest, OnACubeTheEarlierOfTwoZerosWinsAndNanStays) {
  for (const DType type : {DType::FLOAT32, DType::FLOAT64, DType::FLOAT16}) {
    for (const ReduceOp op : {ReduceOp::MIN, ReduceOp::MAX}) {
      const auto all = ofEveryRank(
          n_, [&](int rank) { return zerosAndNan(type, 500, static_cast<unsigned>(rank)); });
      const Stepwise reduction = Stepwise::of(type, op, n_);
      const std::vector<Bytes> right(all.size(), reduced(all, reduction.whole()));
      ASSERT_EQ(run(links::allreduceDoubling, all, reduction), right);
      ASSERT_EQ(run(links::allreduceHalving, all, reduction), right);
      ASSERT_EQ(run(links::allreduceGathered, all, reduction), right);
    }
  }
}

TEST_P(LinksAllreduceTest, GatheredHalfTypesAreRoundedOnce) {
  const auto all = ofEveryRank(n_, [&](int rank) {
    return samples(DType::BFLOAT16, 300, static_cast<unsigned>(rank) + 50);
  });
  const Stepwise reduction = Stepwise::of(DType::BFLOAT16, ReduceOp::AVG, n_);
  ASSERT_EQ(run(links::allreduceGathered, all, reduction),
            std::vector<Bytes>(all.size(), reduced(all, reduction.whole())));
}

TEST_P(LinksAllreduceTest, OnARingEveryShareIsReducedFromItsRankOn) {
  const std::size_t elements = 1003;
  for (const ReduceOp op : {ReduceOp::SUM, ReduceOp::MAX, ReduceOp::AVG, ReduceOp::PRODUCT}) {
    const auto all = ofEveryRank(n_, [&](int rank) {
      return samples(DType::FLOAT32, elements, static_cast<unsigned>(rank) + 170);
    });
    const Stepwise reduction = Stepwise::of(DType::FLOAT32, op, n_);
    Bytes right;
    for (int owner = 0; owner < n_; ++owner) {
      const Range share = shareOf(elements * 4, n_, owner, 4);
      const Bytes part = reduced(all, reduction.whole(), owner, share.begin / 4, share.end() / 4);
      right.insert(right.end(), part.begin(), part.end());
    }
    ASSERT_EQ(run(links::allreduceRing, all, reduction), std::vector<Bytes>(all.size(), right));
  }
}

TEST_P(LinksAllreduceTest, AsAReduceItGivesTheRootTheReductionAndLeavesTheRestAlone) {
  struct Kind {
    DType type;
    ReduceOp op;
    std::size_t elements;
  };
  const Kind kinds[] = {{DType::FLOAT32, ReduceOp::SUM, 0},   {DType::FLOAT32, ReduceOp::SUM, 1},
                        {DType::FLOAT16, ReduceOp::AVG, 200}, {DType::INT32, ReduceOp::SUM, 1000},
                        {DType::BOOL, ReduceOp::BAND, 33},    {DType::FLOAT64, ReduceOp::MIN, 77}};
  for (const Kind& kind : kinds) {
    const auto all =
        ofEveryRank(n_, [&](int rank) { return wholeNumbers(kind.type, rank, kind.elements); });
    const Stepwise reduction = Stepwise::of(kind.type, kind.op, n_);
    const Bytes right = reduced(all, reduction.whole());
    world_.run([&](Communicator& comm) {
      for (const Reduce algorithm : kReduces) {
        for (const int root : {0, n_ - 1, n_ / 2}) {
          const auto me = static_cast<std::size_t>(comm.rank());
          const bool inPlace = root == 0;
          Bytes in = all[me];
          Bytes out = right.empty() ? Bytes() : Bytes(right.size());
          const Block into = comm.rank() != root ? Block() : inPlace ? Block(in) : Block(out);
          operate(comm, [&] { algorithm(comm, in, into, root, reduction); });
          if (comm.rank() == root) {
            EXPECT_TRUE(inPlace ? in == right : out == right)
                << name(kind.type) << " " << kind.elements << " to " << root;
          }
          if (comm.rank() != root || !inPlace) {
            EXPECT_EQ(in, all[me]) << "what is given is left alone";
          }
        }
      }
    });
  }
}

/// A multiple of what every number of ranks here divides.
constexpr std::size_t kElements = 16 * 9 * 5 * 7;
constexpr std::size_t kBytes = kElements * 64;

class LinksAllreduceCostTest : public ::testing::TestWithParam<int> {
 protected:
  const int n_ = GetParam();
  LoopbackWorld world_{GetParam()};

  std::size_t ranks() const { return static_cast<std::size_t>(n_); }
  std::size_t corners() const { return std::bit_floor(ranks()); }
  std::size_t dimensions() const { return static_cast<std::size_t>(std::bit_width(ranks()) - 1); }

  void run(const std::function<void(Communicator&, Block, const Stepwise&)>& body) {
    const Stepwise sum = Stepwise::of(DType::INT32, ReduceOp::SUM, n_);
    world_.run([&](Communicator& comm) {
      Bytes data(kBytes);
      operate(comm, [&] { body(comm, Block(data), sum); });
    });
  }
  /// On a cube: what a corner without a guest has, and guests.
  void expectOnCube(LoopbackCost corner) {
    for (int rank = 0; rank < n_; ++rank) {
      const links::Cube cube{rank, n_};
      const LoopbackCost cost = world_.cost(rank);
      const std::size_t forGuest = cube.isPaired() ? 1 : 0;
      EXPECT_EQ(cost.bytes, cube.isGuest() ? kBytes : corner.bytes + forGuest * kBytes) << rank;
      EXPECT_EQ(cost.messages, cube.isGuest() ? 1 : corner.messages + forGuest) << rank;
      EXPECT_GE(cost.flights, corner.flights) << rank;
      EXPECT_LE(cost.flights, corner.flights + (corners() == ranks() ? 0 : 2)) << rank;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, LinksAllreduceCostTest,
                         ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 16));

TEST_P(LinksAllreduceCostTest, DoublingSendsEverythingOnceForEachDoubling) {
  run(links::allreduceDoubling);

  expectOnCube({.bytes = dimensions() * kBytes, .messages = dimensions(), .flights = dimensions()});
}

TEST_P(LinksAllreduceCostTest, GatheringTakesAsFewFlightsAsThereCanBe) {
  run(links::allreduceGathered);

  const auto steps = static_cast<std::size_t>(std::bit_width(ranks() - 1));
  for (int rank = 0; rank < n_; ++rank) {
    EXPECT_EQ(world_.cost(rank),
              (LoopbackCost{.bytes = (ranks() - 1) * kBytes, .messages = steps, .flights = steps}));
  }
}

TEST_P(LinksAllreduceCostTest, HalvingSendsTwiceTheDataLessAShare) {
  run(links::allreduceHalving);

  expectOnCube({.bytes = 2 * (kBytes - kBytes / corners()),
                .messages = 2 * dimensions(),
                .flights = 2 * dimensions()});
}

TEST_P(LinksAllreduceCostTest, ARingSendsTwiceTheDataLessAShare) {
  run(links::allreduceRing);

  for (int rank = 0; rank < n_; ++rank) {
    EXPECT_EQ(world_.cost(rank), (LoopbackCost{.bytes = 2 * (kBytes - kBytes / ranks()),
                                               .messages = 2 * (ranks() - 1),
                                               .flights = 2 * (ranks() - 1)}));
  }
}

TEST_P(LinksAllreduceCostTest, ATreeReducesWithOneMessageOfEach) {
  const int root = n_ / 3;
  run([&](Communicator& comm, Block data, const Stepwise& sum) {
    links::reduceBinomial(comm, data, data, root, sum);
  });

  for (int rank = 0; rank < n_; ++rank) {
    EXPECT_EQ(world_.cost(rank).bytes, rank == root ? 0 : kBytes);
    EXPECT_EQ(world_.cost(rank).messages, rank == root ? 0U : 1U);
  }
  EXPECT_EQ(world_.total().flights, dimensions());
}

TEST_P(LinksAllreduceCostTest, ARingReducesWithADataLessAShareAndOneMoreForTheRoot) {
  const int root = n_ / 3;
  run([&](Communicator& comm, Block data, const Stepwise& sum) {
    links::reduceRing(comm, data, data, root, sum);
  });

  for (int rank = 0; rank < n_; ++rank) {
    EXPECT_EQ(world_.cost(rank).bytes, rank == root ? kBytes - kBytes / ranks() : kBytes);
    EXPECT_EQ(world_.cost(rank).messages, rank == root ? ranks() - 1 : ranks());
  }
  EXPECT_EQ(world_.total().flights, n_ == 1 ? 0 : ranks());
}

}  // namespace
}  // namespace unisono

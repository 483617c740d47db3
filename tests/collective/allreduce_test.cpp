// Every way to do an all-reduce gives the same bits: those of reducing in the order of the ranks.
#include <algorithm>
#include <gmock/gmock.h>
#include <numeric>
#include <utility>

#include "collective/rank_counts.hpp"
#include "collective/reduction_samples.hpp"
#include "collective/selection.hpp"
#include "support/thread_world.hpp"

namespace unisono {
namespace {

using test::contribution;
using test::expected;
using test::forEveryReduction;
using test::operate;
using test::ThreadWorld;

struct Case {
  AllreduceAlgorithm algorithm;
  int ranks;
  int cores;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const AllreduceAlgorithm& algorithm : allreduceAlgorithms()) {
    for (const int ranks : test::kRankCounts) {
      all.push_back({algorithm, ranks, ranks % 2 == 0 ? ranks : 2});
    }
  }
  return all;
}

class AllreduceTest : public ::testing::TestWithParam<Case> {
 protected:
  void check(ThreadWorld& world, DType type, ReduceOp op, std::size_t elements, bool inPlace,
             int taker = AllreduceData::kAll) {
    const Case& shape = GetParam();
    const Reduction reduction = Reduction::of(type, op, shape.ranks);
    const std::size_t bytes = elements * reduction.elementSize();
    if (!shape.algorithm.applies({bytes, reduction.elementSize(), shape.ranks, false})) {
      return;
    }
    const std::vector<std::byte> right = expected(shape.ranks, elements, type, reduction);
    world.run([&](shm::Arena& arena) {
      std::vector<std::byte> in = contribution(arena.rank(), elements, type);
      std::vector<std::byte> out(bytes + 1, std::byte{0x5A});
      std::byte* into = inPlace ? in.data() : out.data();
      const AllreduceData data{in.data(), into, elements, taker};
      const std::vector<std::byte> before(into, into + bytes);
      operate(
          arena, [&] { shape.algorithm.run(arena, data, reduction); },
          taker == AllreduceData::kAll);
      ASSERT_EQ(std::memcmp(into, (data.isTaker(arena.rank()) ? right : before).data(), bytes), 0)
          << name(type) << " " << elements << " elements, rank " << arena.rank();
      ASSERT_EQ(out.back(), std::byte{0x5A});
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Shapes, AllreduceTest, ::testing::ValuesIn(cases()),
                         [](const auto& shape) {
                           return std::string(shape.param.algorithm.name) + "With" +
                                  std::to_string(shape.param.ranks);
                         });

TEST_P(AllreduceTest, GivesTheBitsOfReducingInTheOrderOfRanks) {
  ThreadWorld world(GetParam().ranks, {.cores = GetParam().cores});
  for (const std::size_t elements : {1U, 2U, 3U, 13U, 14U, 15U, 16U, 17U, 100U, 1000U, 1023U, 1025U,
                                     4097U, 20'000U, 70'001U, 300'000U}) {
    check(world, DType::FLOAT32, ReduceOp::SUM, elements, elements % 2 == 0);
  }
}

// Every pair of a type and an operation, with sizes that take turns: over the numbers of ranks each
// pair meets each size.
TEST_P(AllreduceTest, DoesEveryOperationOnEveryType) {
  ThreadWorld world(GetParam().ranks, {.cores = GetParam().cores});
  auto turn = static_cast<std::size_t>(GetParam().ranks);
  forEveryReduction([&](DType type, ReduceOp op) {
    ++turn;
    check(world, type, op, test::kOddCounts[turn % test::kOddCounts.size()], turn % 2 == 0);
    check(world, type, op, test::kOddCounts[turn % 6], turn % 2 != 0);  // short ones: for all
    check(world, type, op, test::kOddCounts[turn % 5], turn % 2 == 0,
          static_cast<int>(turn) % GetParam().ranks);
  });
}

TEST_P(AllreduceTest, SizesMayFollowEachOtherInAnyOrder) {
  ThreadWorld world(GetParam().ranks, {.cores = GetParam().cores});
  const Case& shape = GetParam();
  const Reduction sum = Reduction::of(DType::INT64, ReduceOp::SUM, shape.ranks);
  world.run([&](shm::Arena& arena) {
    std::size_t elements = 1;
    for (int turn = 0; turn < 60; ++turn) {
      elements = elements * 48'271 % 50'021;
      if (!shape.algorithm.applies({elements * 8, 8, shape.ranks, false})) {
        elements = 1 + elements % 500;
      }
      std::vector<std::int64_t> data(elements);
      std::iota(data.begin(), data.end(), turn + arena.rank());
      auto* bytes = reinterpret_cast<std::byte*>(data.data());
      operate(arena, [&] { shape.algorithm.run(arena, {bytes, bytes, elements}, sum); });
      const int ranks = shape.ranks;
      std::int64_t right = ranks * turn + ranks * (ranks - 1) / 2;
      const auto wrong = std::find_if(data.begin(), data.end(), [&](std::int64_t value) {
        return value != std::exchange(right, right + ranks);
      });
      ASSERT_EQ(wrong, data.end()) << "turn " << turn << ", element " << wrong - data.begin();
    }
  });
}

TEST_P(AllreduceTest, AsAReduceItTouchesTheTakersOutputOnly) {
  const Case& shape = GetParam();
  ThreadWorld world(shape.ranks, {.cores = shape.cores});
  const Reduction sum = Reduction::of(DType::FLOAT32, ReduceOp::SUM, shape.ranks);
  for (int turn = 0; turn < 30; ++turn) {
    const int root = turn % shape.ranks;
    const std::size_t elements = turn % 3 == 0 ? 3 : turn % 3 == 1 ? 900 : 100'000;
    if (!shape.algorithm.applies({elements * 4, 4, shape.ranks, false})) {
      continue;
    }
    world.run([&](shm::Arena& arena) {
      std::vector<float> data(elements, static_cast<float>(arena.rank() + 1));
      auto* bytes = reinterpret_cast<std::byte*>(data.data());
      operate(
          arena,
          [&] {
            shape.algorithm.run(arena, {bytes, bytes, elements, root}, sum);
          },
          false);
      const int right =
          arena.rank() == root ? shape.ranks * (shape.ranks + 1) / 2 : arena.rank() + 1;
      ASSERT_TRUE(std::all_of(data.begin(), data.end(),
                              [&](float value) { return value == static_cast<float>(right); }));
    });
  }
}

}  // namespace
}  // namespace unisono

#include "unisono/group/functional.hpp"

#include <gmock/gmock.h>
#include <numeric>
#include <vector>

#include "unisono/group/group_registry.hpp"

#include "group/backend_kinds.hpp"
#include "group/in_world.hpp"
#include "store/expect.hpp"

namespace unisono {
namespace {

using namespace std::chrono_literals;
using test::inWorld;
using test::OpenBackend;
using test::textOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The elements of a result, once it has been written.
std::vector<int> valuesOf(const Tensor& tensor) {
  const Tensor ready = waitTensor(tensor);
  const int* const first = ready.dataAs<int>();
  return {first, first + ready.numel()};
}

std::vector<std::int64_t> sizesOf(const Tensor& tensor) {
  return {tensor.sizes().begin(), tensor.sizes().end()};
}

/// `values` with the sizes of a matrix.
Tensor matrix(std::vector<int>& values, std::int64_t rows, std::int64_t columns) {
  return {values.data(), DType::INT32, Dims{rows, columns}};
}

TEST(FunctionalTest, AResultIsNewAndTheArgumentStaysAsItWas) {
  inWorld(3, [](Group world) {
    std::vector<int> mine(5, world.rank() + 1);
    const Tensor total = functional::allReduce(Tensor(mine), ReduceOp::SUM, world);
    const Tensor roots = functional::broadcast(Tensor(mine), 1, world);

    EXPECT_THAT(valuesOf(total), Each(6));
    EXPECT_THAT(valuesOf(roots), Each(2));
    EXPECT_THAT(mine, Each(world.rank() + 1));
    EXPECT_EQ(total.numel(), 5);
  });
}

TEST(FunctionalTest, TheRootGetsAReduction) {
  inWorld(3, [](Group world) {
    std::vector<int> mine(2, world.rank() + 1);
    EXPECT_THAT(valuesOf(functional::reduce(Tensor(mine), ReduceOp::SUM, 1, world)),
                Each(world.rank() == 1 ? 6 : world.rank() + 1));
  });
}

TEST(FunctionalTest, TheRootGathersRowsAndScattersThem) {
  inWorld(2, [](Group world) {
    std::vector<int> mine = {world.rank(), 10, 20, world.rank() + 30};
    const Tensor all = functional::gather(matrix(mine, 2, 2), 1, world);
    EXPECT_EQ(sizesOf(all), (std::vector<std::int64_t>{world.rank() == 1 ? 4 : 0, 2}));
    const std::vector<int> gathered = valuesOf(all);
    if (world.rank() == 1) {
      EXPECT_THAT(gathered, ElementsAre(0, 10, 20, 30, 1, 10, 20, 31));
    }
    const Tensor part = functional::scatter(matrix(mine, 2, 2), 1, world);
    EXPECT_THAT(sizesOf(part), ElementsAre(1, 2));
    EXPECT_THAT(valuesOf(part), world.rank() == 0 ? ElementsAre(1, 10) : ElementsAre(20, 31));

    int single = world.rank();
    const Tensor one(&single, DType::INT32, Dims());
    EXPECT_EQ(valuesOf(functional::gather(one, 0, world)).size(), world.rank() == 0 ? 2U : 0U);
  });
}

TEST(FunctionalTest, TensorsAreGatheredAlongAnyDimension) {
  inWorld(2, [](Group world) {
    std::vector<int> mine = {10 * world.rank(), 10 * world.rank() + 1, 10 * world.rank() + 2,
                             10 * world.rank() + 3};
    const Tensor rows = functional::allGather(matrix(mine, 2, 2), 0, world);
    EXPECT_THAT(sizesOf(rows), ElementsAre(4, 2));
    EXPECT_THAT(valuesOf(rows), ElementsAre(0, 1, 2, 3, 10, 11, 12, 13));

    for (const int dim : {1, -1}) {
      const Tensor columns = functional::allGather(matrix(mine, 2, 2), dim, world);
      EXPECT_THAT(sizesOf(columns), ElementsAre(2, 4));
      EXPECT_THAT(valuesOf(columns), ElementsAre(0, 1, 10, 11, 2, 3, 12, 13));
    }
  });
}

TEST(FunctionalTest, SingleElementsAreGatheredToARow) {
  inWorld(3, [](Group world) {
    int mine = world.rank();
    const Tensor row = functional::allGather(Tensor(&mine, DType::INT32, Dims()), 0, world);
    EXPECT_THAT(sizesOf(row), ElementsAre(3));
    EXPECT_THAT(valuesOf(row), ElementsAre(0, 1, 2));
  });
}

TEST(FunctionalTest, AReductionIsScatteredAlongAnyDimension) {
  inWorld(2, [](Group world) {
    std::vector<int> mine(8);
    std::iota(mine.begin(), mine.end(), 0);
    const bool first = world.rank() == 0;

    const Tensor rows = functional::reduceScatter(matrix(mine, 2, 4), ReduceOp::SUM, 0, world);
    EXPECT_THAT(sizesOf(rows), ElementsAre(1, 4));
    EXPECT_THAT(valuesOf(rows), first ? ElementsAre(0, 2, 4, 6) : ElementsAre(8, 10, 12, 14));

    const Tensor columns = functional::reduceScatter(matrix(mine, 2, 4), ReduceOp::SUM, 1, world);
    EXPECT_THAT(sizesOf(columns), ElementsAre(2, 2));
    EXPECT_THAT(valuesOf(columns), first ? ElementsAre(0, 2, 8, 10) : ElementsAre(4, 6, 12, 14));
  });
}

TEST(FunctionalTest, RowsAreExchangedWithAndWithoutSplits) {
  inWorld(2, [](Group world) {
    std::vector<int> mine(4, world.rank());
    EXPECT_THAT(valuesOf(functional::allToAll(Tensor(mine), {}, {}, world)),
                ElementsAre(0, 0, 1, 1));

    // Rank 0 gets one row of each, rank 1 three.
    const std::vector<std::int64_t> given = {1, 3};
    const auto share = static_cast<std::int64_t>(world.rank() == 0 ? 1 : 3);
    const std::vector<std::int64_t> taken = {share, share};
    const Tensor uneven = functional::allToAll(Tensor(mine), taken, given, world);
    EXPECT_EQ(sizesOf(uneven), std::vector<std::int64_t>{2 * share});
    EXPECT_EQ(valuesOf(uneven).front(), 0);
    EXPECT_EQ(valuesOf(uneven).back(), 1);
  });
}

TEST(FunctionalTest, TensorsChangePlaces) {
  inWorld(3, [](Group world) {
    std::vector<int> mine(2, world.rank());
    const std::vector<int> next = {1, 2, 0};  // rank r gives to the one after it
    EXPECT_THAT(valuesOf(functional::permute(Tensor(mine), next, world)),
                Each((world.rank() + 2) % 3));
  });
}

TEST(FunctionalTest, ListsAreDoneOneByOneAndWaitedForInAnyOrder) {
  inWorld(3, [](Group world) {
    std::vector<int> three(3, 1);
    std::vector<double> six(6, 2);
    const std::vector<Tensor> both = {Tensor(three), Tensor(six)};
    const std::vector<int> dims = {0, 0};

    const auto reduced = functional::allReduceCoalesced(both, ReduceOp::SUM, world);
    const auto gathered = functional::allGatherCoalesced(both, world);
    const auto parts = functional::reduceScatterCoalesced(both, ReduceOp::SUM, dims, world);

    EXPECT_EQ(waitTensor(parts[1]).numel(), 2);
    EXPECT_THAT(valuesOf(parts[0]), ElementsAre(3));
    EXPECT_EQ(waitTensor(reduced[1]).dataAs<double>()[5], 6.0);
    EXPECT_THAT(valuesOf(reduced[0]), ElementsAre(3, 3, 3));
    EXPECT_EQ(waitTensor(gathered[1]).numel(), 18);
    EXPECT_THAT(valuesOf(gathered[0]), Each(1));
  });
}

TEST(FunctionalTest, AnArgumentThatIsUnderWayIsWaitedFor) {
  inWorld(3, [](Group world) {
    std::vector<int> ones(4, 1);
    const Tensor three = functional::allReduce(Tensor(ones), ReduceOp::SUM, world);
    EXPECT_THAT(valuesOf(functional::allReduce(three, ReduceOp::SUM, world)), Each(9));
  });
}

TEST(FunctionalTest, TensorsNeedNotLieInOneRow) {
  inWorld(2, [](Group world) {
    std::vector<int> values = {0, 1, 2, 3, 4, 5};
    const Tensor columns(values.data(), DType::INT32, Dims{3, 2}, Dims{1, 3});
    EXPECT_THAT(valuesOf(functional::allReduce(columns, ReduceOp::SUM, world)),
                ElementsAre(0, 6, 2, 8, 4, 10));
    EXPECT_THAT(valuesOf(functional::allGather(columns, 1, world)),
                ElementsAre(0, 3, 0, 3, 1, 4, 1, 4, 2, 5, 2, 5));
    EXPECT_THAT(valuesOf(functional::reduceScatter(columns, ReduceOp::MAX, 1, world)),
                world.rank() == 0 ? ElementsAre(0, 1, 2) : ElementsAre(3, 4, 5));
  });
}

TEST(FunctionalTest, TensorsWithoutElementsAreNoMistake) {
  inWorld(2, [](Group world) {
    std::vector<int> none;
    EXPECT_EQ(waitTensor(functional::allReduce(Tensor(none), ReduceOp::SUM, world)).numel(), 0);
    EXPECT_EQ(waitTensor(functional::allGather(matrix(none, 0, 3), 1, world)).numel(), 0);
  });
}

TEST(FunctionalTest, AGroupIsFoundByItsName) {
  inWorld(1, [](Group world) {
    registerGroup("functional", world.sharedProcessGroup());
    std::vector<int> ones(2, 1);
    EXPECT_THAT(valuesOf(functional::allReduce(Tensor(ones), ReduceOp::SUM, "functional")),
                Each(1));
    EXPECT_TRUE(unregisterGroup("functional"));
    EXPECT_THAT(textOf<UsageError>(
                    [&] { functional::allReduce(Tensor(ones), ReduceOp::SUM, "functional"); }),
                HasSubstr("Could not resolve the process group registered under the name"));
  });
}

class FunctionalOpenTest : public ::testing::Test {
 protected:
  std::shared_ptr<OpenBackend> open_ =
      std::make_shared<OpenBackend>(BackendParams{.rank = 1, .size = 3});
  std::shared_ptr<ProcessGroup> group_ = std::make_shared<ProcessGroup>(nullptr, 1, 3, "world");
  std::vector<int> values_ = std::vector<int>(6, 1);
  void SetUp() override { group_->setBackend(DeviceType::CPU, open_); }
};

TEST_F(FunctionalOpenTest, ACallReturnsBeforeItsOperationHasEnded) {
  const Tensor total = functional::allReduce(Tensor(values_), ReduceOp::MAX, group_);

  ASSERT_EQ(open_->works.size(), 1U);
  EXPECT_FALSE(open_->works[0]->isCompleted());
  EXPECT_EQ(open_->calls[0].reduceOp, ReduceOp::MAX);
  EXPECT_EQ(workRegistrySize(), 1U);
  open_->works[0]->finish();
  waitTensor(total);
  EXPECT_EQ(workRegistrySize(), 0U);
}

TEST_F(FunctionalOpenTest, TheErrorOfAnOperationIsThrownWhereItsResultIsWaitedFor) {
  const Tensor total = functional::allReduce(Tensor(values_), ReduceOp::SUM, group_);
  open_->works[0]->finish(test::peerDied());
  EXPECT_THROW(waitTensor(total), DistBackendError);
  EXPECT_EQ(waitTensor(total).numel(), 6) << "it is told once";
}

TEST_F(FunctionalOpenTest, ResultsThatAreDroppedLeaveNothingBehind) {
  for (int i = 0; i < 5; ++i) {
    functional::broadcast(Tensor(values_), 0, group_);
    open_->works.back()->finish(nullptr, open_->calls.back().outputs);
  }
  open_->works.clear();
  open_->calls.clear();
  EXPECT_EQ(workRegistrySize(), 0U);
}

TEST_F(FunctionalOpenTest, AMistakeIsToldInASentenceAndStartsNothing) {
  const Tensor row(values_);
  const auto sum = ReduceOp::SUM;
  const std::vector<std::int64_t> two = {3, 3};
  const std::vector<int> twice = {0, 1, 1};
  const auto refusal = [](auto call) { return textOf<UsageError>(call); };

  EXPECT_THAT(refusal([&] { functional::allReduce(Tensor(), sum, group_); }),
              HasSubstr("there is no tensor"));
  EXPECT_THAT(refusal([&] { functional::allGather(row, 1, group_); }),
              HasSubstr("dimension 1 of a tensor with 1 dimensions"));
  EXPECT_THAT(refusal([&] { functional::reduceScatter(slice(row, 0, 4), sum, 0, group_); }),
              HasSubstr("cannot be shared equally by 3 ranks"));
  EXPECT_THAT(refusal([&] { functional::scatter(slice(row, 0, 4), 0, group_); }),
              HasSubstr("cannot be shared equally by 3 ranks"));
  EXPECT_THAT(refusal([&] { functional::allToAll(row, two, {}, group_); }),
              HasSubstr("give both or none"));
  EXPECT_THAT(refusal([&] { functional::permute(row, twice, group_); }),
              HasSubstr("must name each of the 3 ranks once"));
  EXPECT_THAT(
      refusal([&] { functional::reduceScatterCoalesced(std::vector{row}, sum, {}, group_); }),
      HasSubstr("there are 1 tensors, but 0 dimensions"));
  EXPECT_THAT(refusal([&] {
                functional::allReduce(
                    Tensor(values_.data(), DType::INT32, Dims{6}, Device{DeviceType::CUDA, 0}), sum,
                    group_);
              }),
              HasSubstr("is not in memory of the CPU"));
  EXPECT_THROW(functional::GroupRef(std::shared_ptr<ProcessGroup>()), UsageError);
  EXPECT_TRUE(open_->calls.empty());
  EXPECT_EQ(workRegistrySize(), 0U);
}

}  // namespace
}  // namespace unisono

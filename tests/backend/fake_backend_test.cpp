#include "unisono/backend/fake_backend.hpp"

#include <gmock/gmock.h>
#include <numeric>

#include "unisono/base/error.hpp"

#include "store/expect.hpp"
#include "work/sample_calls.hpp"

namespace unisono {
namespace {

using test::textOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int> counted(std::size_t count, int first) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// Rank 1 of 3.
class FakeBackendTest : public ::testing::Test {
 protected:
  FakeBackend fake_{{.rank = 1, .size = 3}};
};

TEST_F(FakeBackendTest, LeavesReductionsAsTheyAre) {
  std::vector<int> values = {1, 2};
  const WorkPtr work = fake_.allreduce(Tensor(values));

  EXPECT_TRUE(work->isCompleted());
  EXPECT_THAT(values, ElementsAre(1, 2));
  EXPECT_EQ(work->result()[0].data(), values.data());
  EXPECT_EQ(work->opType(), OpType::ALLREDUCE);
}

TEST_F(FakeBackendTest, GathersItsOwnInputFromEverybody) {
  std::vector<int> input = {7, 8};
  std::vector<int> slots[3] = {{0, 0}, {0, 0}, {0, 0}};
  fake_.allgather({{Tensor(slots[0]), Tensor(slots[1]), Tensor(slots[2])}}, Tensor(input));
  EXPECT_THAT(slots, Each(ElementsAre(7, 8)));

  std::vector<int> whole(6);
  fake_.allGatherSingle(Tensor(whole), Tensor(input));
  EXPECT_THAT(whole, ElementsAre(7, 8, 7, 8, 7, 8));

  std::vector<int> gathered[3] = {{0, 0}, {0, 0}, {0, 0}};
  fake_.gather({{Tensor(gathered[0]), Tensor(gathered[1]), Tensor(gathered[2])}}, Tensor(input),
               {.rootRank = 1});
  EXPECT_THAT(gathered, Each(ElementsAre(7, 8)));
  EXPECT_TRUE(fake_.gather({}, Tensor(input), {.rootRank = 0})->wait());
}

TEST_F(FakeBackendTest, ScattersItsOwnSlot) {
  std::vector<int> slots[3] = {{1}, {2}, {3}};
  std::vector<int> output = {0};
  const TensorLists inputs = {{Tensor(slots[0]), Tensor(slots[1]), Tensor(slots[2])}};
  fake_.scatter(Tensor(output), inputs, {.rootRank = 1});
  EXPECT_THAT(output, ElementsAre(2));

  output = {0};
  fake_.reduceScatter(Tensor(output), inputs);
  EXPECT_THAT(output, ElementsAre(2));

  output = {9};
  fake_.scatter(Tensor(output), {}, {.rootRank = 0});
  EXPECT_THAT(output, ElementsAre(9));

  std::vector<int> whole = counted(6, 1);
  std::vector<int> share(2);
  fake_.reduceScatterSingle(Tensor(share), Tensor(whole));
  EXPECT_THAT(share, ElementsAre(3, 4));
}

TEST_F(FakeBackendTest, ExchangesWithItself) {
  std::vector<int> input = {1, 2, 3};
  std::vector<int> output(5);
  fake_.allToAllSingle(Tensor(output), Tensor(input), {1, 3, 1}, {});
  EXPECT_THAT(output, ElementsAre(1, 2, 3, 1, 2));
}

TEST_F(FakeBackendTest, CopiesStridedTensorsElementByElement) {
  std::vector<int> matrix = counted(6, 1);  // 1 2 / 3 4 / 5 6
  const Tensor column(matrix.data() + 1, DType::INT32, {3}, {2});
  std::vector<int> whole(9);
  fake_.allGatherSingle(Tensor(whole), column);
  EXPECT_THAT(whole, ElementsAre(2, 4, 6, 2, 4, 6, 2, 4, 6));
}

TEST_F(FakeBackendTest, LeavesOtherMemoryAlone) {
  // Not an address that this process may touch.
  auto* const elsewhere = reinterpret_cast<void*>(0x1000);
  const Tensor input(elsewhere, DType::INT32, {2}, Device{DeviceType::CUDA, 0});
  const Tensor output(reinterpret_cast<void*>(0x2000), DType::INT32, {6},
                      Device{DeviceType::CUDA, 0});
  EXPECT_TRUE(fake_.allGatherSingle(output, input)->wait());
}

TEST_F(FakeBackendTest, ASynchronousCallCostsNoWork) {
  std::vector<int> values = {1};
  EXPECT_EQ(fake_.allreduce(Tensor(values), {.asyncOp = false}), finishedWork());
}

TEST_F(FakeBackendTest, FailsEveryCollectiveWhenToldTo) {
  FakeBackend failing({.rank = 0, .size = 2}, {.errorOnCollective = true});
  std::vector<int> values = {1};
  EXPECT_THAT(textOf<DistBackendError>([&] { failing.allreduce(Tensor(values)); }),
              HasSubstr("FakeProcessGroup collective operation error (error_on_collective=true)"));
  EXPECT_THROW(failing.barrier(), DistBackendError);
  EXPECT_TRUE(failing.send(Tensor(values), 1)->wait());
}

TEST_F(FakeBackendTest, RunsBatchesAndSplits) {
  std::vector<int> input = {4};
  std::vector<int> output(3);
  CollectiveArgs args;
  args.type = OpType::ALLGATHER_BASE;
  args.inputs = Tensor(input);
  args.outputs = Tensor(output);
  std::vector<CollectiveArgs> batch = {args};
  EXPECT_TRUE(fake_.submitCoalesced(std::move(batch))->wait());
  EXPECT_THAT(output, Each(4));

  const auto part = fake_.split(nullptr, {2, 1}, {.groupName = "part"});
  ASSERT_NE(part, nullptr);
  EXPECT_EQ(part->rank(), 1);
  EXPECT_EQ(part->size(), 2);
  EXPECT_EQ(fake_.split(nullptr, {0, 2}, {}), nullptr);
  EXPECT_NO_THROW(fake_.monitoredBarrier({}, false));
}

}  // namespace
}  // namespace unisono

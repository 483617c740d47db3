#include "unisono/work/collective_args.hpp"

#include <gmock/gmock.h>

#include "unisono/base/error.hpp"

#include "store/expect.hpp"
#include "work/sample_calls.hpp"

namespace unisono {
namespace {

using test::Recording;
using test::TensorMaker;
using test::textOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kRank = 1;
constexpr int kSize = 3;

/// Looks at the last call of `api` as rank 1 of 3.
class CollectiveArgsTest : public ::testing::Test {
 protected:
  TensorMaker tensor_;
  Recording api_;

  void expectGood() const { EXPECT_NO_THROW(api_.last.validate(kRank, kSize)); }
  void expectRefused(const std::string& fragment) const {
    EXPECT_THAT(textOf<UsageError>([&] { api_.last.validate(kRank, kSize); }),
                AllOf(HasSubstr(fragment), HasSubstr("refused"), HasSubstr("[USAGE]"),
                      HasSubstr("rank=1/3")));
  }
};

TEST_F(CollectiveArgsTest, AnErrorNamesTheOperationAsUsersDo) {
  api_.allreduce({});
  expectRefused("all_reduce refused: requires non-empty tensor list");
  expectRefused("op=all_reduce");
}

TEST_F(CollectiveArgsTest, ABroadcastHasARootAndEqualTensors) {
  api_.broadcast(tensor_({4}), {.rootRank = 2});
  expectGood();
  api_.broadcast(tensor_({0}), {.rootRank = 0});
  expectGood();
  api_.broadcast(tensor_({4}), {.rootRank = 3});
  expectRefused("invalid root rank: 3");
  api_.broadcast(tensor_({4}), {.rootRank = -1});
  expectRefused("invalid root rank: -1");
  api_.broadcast(tensor_({4}), {.rootTensor = 1});
  expectRefused("invalid root tensor: 1");
  api_.broadcast({});
  expectRefused("invalid root tensor: 0");
  api_.broadcast({tensor_({4}), tensor_({4}, DType::INT8)});
  expectRefused("invalid tensor type at index 1 (expected float32, got int8)");
  api_.broadcast({tensor_({2, 3}), tensor_({4})});
  expectRefused("invalid tensor size at index 1 (expected (2, 3), got (4))");
}

TEST_F(CollectiveArgsTest, AnAllreduceHasEqualTensorsThatCanBeReduced) {
  api_.allreduce(tensor_({4}));
  expectGood();
  api_.allreduce({tensor_({4}), tensor_({4})}, {.reduceOp = ReduceOp::MAX});
  expectGood();
  api_.allreduce(tensor_({4}), {.reduceOp = ReduceOp::BAND});
  expectRefused("Cannot use ReduceOp.BAND with non-integral dtype");
  api_.allreduce(tensor_({4}, DType::BOOL), {.reduceOp = ReduceOp::AVG});
  expectRefused("Cannot use ReduceOp.AVG with boolean inputs");
  api_.allreduce(tensor_({4}, DType::INT32), {.reduceOp = ReduceOp::preMulSum(2)});
  expectRefused("PreMulSum Data type must be half, float, bfloat16 or double");
  api_.allreduce(tensor_({4}, DType::COMPLEX64), {.reduceOp = ReduceOp::preMulSum(2)});
  expectRefused("PreMulSum Data type must be half, float, bfloat16 or double");
  api_.allreduce(tensor_({4}, DType::COMPLEX64), {.reduceOp = ReduceOp::MIN});
  expectRefused("all_reduce does not support ReduceOp.MIN");
  api_.allreduce(tensor_({4}), {.reduceOp = ReduceOp::UNUSED});
  expectRefused("ReduceOp.UNUSED");
  api_.allreduce({tensor_({4}), tensor_({5})});
  expectRefused("invalid tensor size at index 1");
  api_.allreduce(Tensor());
  expectRefused("the tensor at index 0 is undefined");
  api_.allreduce(tensor_({4}), {.timeout = std::chrono::milliseconds(-2)});
  expectRefused("timeout -2ms");
}

TEST_F(CollectiveArgsTest, TensorsOnTwoDevicesAreRefused) {
  const Device cuda{DeviceType::CUDA, 0};
  api_.allreduce({tensor_({4}), tensor_({4}, DType::FLOAT32, cuda)});
  expectRefused("got float32 on cuda:0");
  api_.allreduceCoalesced({tensor_({4}), tensor_({4}, DType::FLOAT32, cuda)});
  expectRefused("tensors must all be on the same device");
  api_.allToAllSingle(tensor_({3}), tensor_({3}, DType::FLOAT32, cuda));
  expectRefused("output tensor and input tensor must be on the same type of device");
  api_.allreduce({tensor_({4}), tensor_({4}, DType::FLOAT32, {DeviceType::CPU, 0})});
  expectGood();
}

TEST_F(CollectiveArgsTest, ACoalescedAllreduceMayHaveOneTensorTwice) {
  const Tensor once = tensor_({4});
  api_.allreduceCoalesced({once, tensor_({2, 2}), once});
  expectGood();
  api_.allreduceCoalesced({once, tensor_({2}, DType::INT8)});
  expectRefused("tensors must all have the same type");
  api_.allreduceCoalesced({once, slice(once, 1, 2)});
  expectRefused("the outputs at index 0 and 1 share memory");
}

TEST_F(CollectiveArgsTest, AnOutputWithElementsInOnePlaceIsRefused) {
  float value = 0;
  api_.allreduce(Tensor(&value, DType::FLOAT32, {4}, {0}));
  expectRefused("several elements in one place");
}

TEST_F(CollectiveArgsTest, ColumnsOfOneMatrixAreGoodOutputs) {
  std::vector<float> matrix(6);
  std::vector<Tensor> columns;
  for (int i = 0; i < kSize; ++i) {
    columns.emplace_back(matrix.data() + i, DType::FLOAT32, Dims{2}, Dims{3});
  }
  api_.allgather({columns}, tensor_({2}));
  expectGood();
  columns[2] = columns[0];
  api_.allgather({columns}, tensor_({2}));
  expectRefused("the outputs at index 0 and 2 share memory");
  columns[2] = Tensor(matrix.data() + 2, DType::FLOAT32, {2});  // the end of a row, and on
  api_.allgather({columns}, tensor_({2}));
  expectRefused("the outputs at index 0 and 2 share memory");
}

TEST_F(CollectiveArgsTest, AColumnThatIsAnInputIsNoPartOfAnOutput) {
  std::vector<float> matrix(12);
  const Tensor column(matrix.data() + 1, DType::FLOAT32, {3}, {4});
  std::vector<Tensor> outputs = tensor_.many(kSize, {3});
  outputs[2] = Tensor(matrix.data() + 2, DType::FLOAT32, {3}, {4});
  api_.allgather({outputs}, column);
  expectGood();
  outputs[2] = Tensor(matrix.data() + 3, DType::FLOAT32, {3});
  api_.allgather({outputs}, column);
  expectRefused("the input at index 0 shares memory with the output at index 2");
}

TEST_F(CollectiveArgsTest, ASparseAllreduceSumsCoordinates) {
  const Tensor indices = tensor_({2, 5}, DType::INT64);
  api_.allreduceSparse({indices, tensor_({5, 3}), {10, 10, 3}});
  expectGood();
  api_.allreduceSparse({indices, tensor_({5, 3}), {10, 10, 3}}, {.reduceOp = ReduceOp::MAX});
  expectRefused("unsupported reduction operation (allreduce of sparse tensors only works with");
  api_.allreduceSparse({indices, tensor_({4, 3}), {10, 10, 3}});
  expectRefused("are no sparse tensor");
  api_.allreduceSparse({indices, tensor_({5, 3}), {10, 10}});
  expectRefused("do not fit");
  api_.allreduceSparse({indices, tensor_({5, 3}), {10, -1, 3}});
  expectRefused("cannot have the size -1");
  api_.allreduceSparse({tensor_({5, 1}, DType::INT64), tensor_({1}), {1, 1, 1, 1, 1}});
  expectRefused("4 sparse and 4 dense");
}

TEST_F(CollectiveArgsTest, AReduceHasOneTensorAndARoot) {
  api_.reduce(tensor_({4}), {.rootRank = 2});
  expectGood();
  api_.reduce({tensor_({4}), tensor_({4})});
  expectRefused("requires a single-element tensor list");
  api_.reduce(tensor_({4}), {.rootRank = 7});
  expectRefused("invalid root rank: 7");
}

TEST_F(CollectiveArgsTest, AnAllgatherHasASlotForEveryInput) {
  api_.allgather({tensor_.many(3, {4})}, tensor_({4}));
  expectGood();
  api_.allgather({tensor_.many(6, {4}), tensor_.many(6, {4})}, tensor_.many(2, {4}));
  expectGood();
  api_.allgather({tensor_.many(3, {4})}, {});
  expectRefused("requires non-empty input tensor list");
  api_.allgather({}, tensor_({4}));
  expectRefused("requires input/output tensor lists to have the same length");
  api_.allgather({tensor_.many(2, {4})}, tensor_({4}));
  expectRefused("invalid output tensor list at index 0 (expected length 3, got 2)");
  api_.allgather({tensor_.many(3, {4}, DType::INT8)}, tensor_({4}));
  expectRefused("invalid tensor type at index 0");
  api_.allgather({tensor_.many(3, {5})}, tensor_({4}));
  expectRefused("invalid tensor size at index 1 (expected (4), got (5))");
}

TEST_F(CollectiveArgsTest, AnAllgatherMayHaveSlotsOfDifferentSizes) {
  api_.allgather({{tensor_({9}), tensor_({4}), tensor_({0})}}, tensor_({4}));
  expectGood();
  api_.allgather({{tensor_({4}), tensor_({9}), tensor_({4})}}, tensor_({4}));
  expectRefused("invalid tensor size at index 1");
}

TEST_F(CollectiveArgsTest, AnInputMayBeThisRanksOwnSlotOnly) {
  const std::vector<Tensor> slots = tensor_.many(3, {4});
  api_.allgather({slots}, slots[kRank]);
  expectGood();
  api_.allgather({slots}, slots[0]);
  expectRefused("the input at index 0 shares memory with the output at index 0");

  const Tensor whole = tensor_({12});
  api_.allGatherSingle(whole, slice(whole, 4, 4));
  expectGood();
  api_.allGatherSingle(whole, slice(whole, 0, 4));
  expectRefused("input and output share memory");
  api_.reduceScatterSingle(slice(whole, 4, 4), whole);
  expectGood();
  api_.reduceScatterSingle(slice(whole, 5, 4), whole);
  expectRefused("input and output share memory");
  api_.reduceScatter(slots[kRank], {slots});
  expectGood();
  api_.reduceScatter(slots[2], {slots});
  expectRefused("the input at index 2 shares memory with the output at index 0");
  api_.allToAllSingle(whole, whole);
  expectRefused("shares memory");
}

TEST_F(CollectiveArgsTest, AnAllGatherSingleConcatenatesOrStacks) {
  api_.allGatherSingle(tensor_({6, 2}), tensor_({2, 2}));
  expectGood();
  api_.allGatherSingle(tensor_({3, 2, 2}), tensor_({2, 2}));
  expectGood();
  api_.allGatherSingle(tensor_({3}), tensor_({}));
  expectGood();
  api_.allGatherSingle(tensor_({5}), tensor_({2}));
  expectRefused("output tensor size must be equal to world_size times input tensor size");
  api_.allGatherSingle(tensor_({6}, DType::INT8), tensor_({2}));
  expectRefused("invalid tensor type");
}

TEST_F(CollectiveArgsTest, CoalescedSinglesComeInPairs) {
  api_.allGatherSingleCoalesced({tensor_({6}), tensor_({3})}, {tensor_({2}), tensor_({1})});
  expectGood();
  api_.allGatherSingleCoalesced(tensor_({6}), {tensor_({2}), tensor_({1})});
  expectRefused("requires input/output tensor lists to have the same length");
  api_.reduceScatterSingleCoalesced({tensor_({2}), tensor_({1})}, {tensor_({6}), tensor_({3})});
  expectGood();
  api_.reduceScatterSingleCoalesced({tensor_({2}), tensor_({1})}, {tensor_({6}), tensor_({4})});
  expectRefused("input tensor must be the same size as output size times world size");
}

TEST_F(CollectiveArgsTest, ACoalescedAllgatherHasAListPerRank) {
  const auto lists = [&](Dims second) {
    return TensorLists{{tensor_({2}), tensor_(second)},
                       {tensor_({2}), tensor_(second)},
                       {tensor_({2}), tensor_(second)}};
  };
  const TensorList inputs = {tensor_({2}), tensor_({0, 3})};
  api_.allgatherCoalesced(lists({0, 3}), inputs);
  expectGood();
  api_.allgatherCoalesced({{tensor_({2})}}, inputs);
  expectRefused("output lists should be equal to world size");
  api_.allgatherCoalesced({{tensor_({2})}, {}, {}}, inputs);
  expectRefused("invalid output size: (expected length 2, got 1)");
  api_.allgatherCoalesced(lists({1, 3}), inputs);
  expectRefused("invalid size of output tensor at index 1 (expected length (0, 3), got (1, 3))");
}

TEST_F(CollectiveArgsTest, OnlyTheRootOfAGatherHasOutputs) {
  api_.gather({tensor_.many(3, {4})}, tensor_({4}), {.rootRank = kRank});
  expectGood();
  api_.gather({}, tensor_({4}), {.rootRank = 0});
  expectGood();
  api_.gather({{}}, tensor_({4}), {.rootRank = 0});
  expectGood();
  api_.gather({tensor_.many(3, {4})}, tensor_({4}), {.rootRank = 0});
  expectRefused("requires empty output on non-root");
  api_.gather({}, tensor_({4}), {.rootRank = kRank});
  expectRefused("requires a single-element output list containing a list with 3 tensors.");
  api_.gather({tensor_.many(2, {4})}, tensor_({4}), {.rootRank = kRank});
  expectRefused(
      "Incorrect output list size 2. Output list size should be 3, same as size of the process "
      "group.");
  api_.gather({}, {}, {.rootRank = 0});
  expectRefused("requires a single-element input tensor list");
}

TEST_F(CollectiveArgsTest, OnlyTheRootOfAScatterHasInputs) {
  api_.scatter(tensor_({4}), {tensor_.many(3, {4})}, {.rootRank = kRank});
  expectGood();
  api_.scatter(tensor_({4}), {}, {.rootRank = 0});
  expectGood();
  api_.scatter(tensor_({4}), {tensor_.many(3, {4})}, {.rootRank = 0});
  expectRefused("requires empty input on non-root");
  api_.scatter(tensor_({4}), {tensor_.many(4, {4})}, {.rootRank = kRank});
  expectRefused("Incorrect input list size 4. Input list size should be 3");
  api_.scatter({}, {}, {.rootRank = 0});
  expectRefused("requires a single-element output tensor list");
}

TEST_F(CollectiveArgsTest, AReduceScatterMayHaveSharesOfDifferentSizes) {
  api_.reduceScatter(tensor_({4}), {{tensor_({1}), tensor_({4}), tensor_({7})}});
  expectGood();
  api_.reduceScatter(tensor_({4}), {{tensor_({4}), tensor_({1}), tensor_({4})}});
  expectRefused("invalid tensor size at index 1");
  api_.reduceScatter({tensor_({4}), tensor_({4})}, {tensor_.many(3, {4})});
  expectRefused("reduce_scatter only supports 1 output");
  api_.reduceScatter(tensor_({4}), {tensor_.many(2, {4})});
  expectRefused("invalid input tensor list size, must be world size");
}

TEST_F(CollectiveArgsTest, AnAllToAllSingleDividesRows) {
  api_.allToAllSingle(tensor_({6, 2}), tensor_({3, 2}));
  expectGood();
  api_.allToAllSingle(tensor_({5, 2}), tensor_({3, 2}), {0, 4, 1}, {});
  expectGood();
  api_.allToAllSingle(tensor_({5}), tensor_({3}));
  expectRefused("Tensor's dim 0 does not divide equally across group size");
  api_.allToAllSingle(tensor_({3}), tensor_({3}), {1, 2}, {});
  expectRefused("Number of tensor splits not equal to group size");
  api_.allToAllSingle(tensor_({3}), tensor_({3}), {}, {1, 1, 2});
  expectRefused("Split sizes doesn't match total dim 0 size");
  api_.allToAllSingle(tensor_({3}), tensor_({3}), {}, {5, -1, -1});
  expectRefused("a split cannot have -1 rows");
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  api_.allToAllSingle(tensor_({3}), tensor_({3}), {}, {most, most, 5});
  expectRefused("Split sizes doesn't match total dim 0 size");
  std::vector<float> matrix(6);
  api_.allToAllSingle(tensor_({3}), Tensor(matrix.data(), DType::FLOAT32, {3}, {2}));
  expectRefused("Tensors must be contiguous");
}

TEST_F(CollectiveArgsTest, AnAllToAllMayHaveTensorsOfDifferentSizes) {
  api_.allToAll({tensor_({9}), tensor_({2}), tensor_({0})},
                {tensor_({1}), tensor_({2}), tensor_({5})});
  expectGood();
  api_.allToAll(tensor_.many(3, {2}), tensor_.many(2, {2}));
  expectRefused("input tensor list size 2 does not match world size 3");
  api_.allToAll(tensor_.many(4, {2}), tensor_.many(3, {2}));
  expectRefused("output tensor list size 4 does not match world size 3");
  api_.allToAll(tensor_.many(3, {2}), tensor_.many(3, {1}));
  expectRefused("input and output tensors must have the same size");
  api_.allToAll(tensor_.many(3, {2}), tensor_.many(3, {2}, DType::INT8));
  expectRefused("input and output tensors must have the same type");
  const std::vector<Tensor> shared = tensor_.many(3, {2});
  api_.allToAll(shared, {tensor_({2}), shared[1], tensor_({2})});
  expectGood();
  api_.allToAll(shared, {tensor_({2}), tensor_({2}), shared[0]});
  expectRefused("the input at index 2 shares memory with the output at index 0");
}

TEST_F(CollectiveArgsTest, PointToPointHasOneTensorAPeerAndATag) {
  api_.send(tensor_({4}), 2, 7);
  expectGood();
  api_.recv(tensor_({0}), kRank);
  expectGood();
  api_.recvAnysource(tensor_({4}));
  expectGood();
  api_.send({tensor_({4}), tensor_({4})}, 2);
  expectRefused("send takes a single tensor");
  api_.recv(tensor_({4}), 0, -1);
  expectRefused("Tag must be nonnegative");
  api_.send(tensor_({4}), 3);
  expectRefused("Invalid destination rank: 3");
  api_.recv(tensor_({4}), -1);
  expectRefused("Invalid source rank: -1");
  std::vector<float> matrix(6);
  api_.send(Tensor(matrix.data(), DType::FLOAT32, {3}, {2}), 0);
  expectRefused("input tensor has to be contiguous");
}

TEST_F(CollectiveArgsTest, ABarrierNeedsNothing) {
  api_.barrier();
  expectGood();
}

TEST_F(CollectiveArgsTest, AValueOfNoOperationIsRefused) {
  api_.last.type = OpType::UNKNOWN;
  expectRefused("it is no operation of a group");
}

TEST_F(CollectiveArgsTest, CountsThatOverflowAreRefused) {
  // No memory is touched: only the sizes are looked at.
  char byte = 0;
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / 2;
  const Tensor huge(&byte, DType::INT8, {most});
  api_.allGatherSingle(tensor_({1}, DType::INT8), huge);
  expectRefused("output tensor size must be equal to world_size times input tensor size");
  api_.allreduceCoalesced({huge, huge, huge});
  expectRefused("more bytes than can be counted");
}

TEST_F(CollectiveArgsTest, LengthsThatDoNotAddUpAreRefused) {
  api_.allgather({tensor_.many(3, {4})}, tensor_({4}));
  api_.last.outputs.append(tensor_({4}));
  expectRefused("do not add up");
}

TEST_F(CollectiveArgsTest, EveryoneIsAloneInAWorldOfOne) {
  const Tensor tensor = tensor_({4});
  api_.allToAllSingle(tensor, tensor);
  EXPECT_NO_THROW(api_.last.validate(0, 1));
  api_.allGatherSingle(tensor, tensor);
  EXPECT_NO_THROW(api_.last.validate(0, 1));
  api_.scatter(tensor, {{tensor}});
  EXPECT_NO_THROW(api_.last.validate(0, 1));
}

TEST_F(CollectiveArgsTest, DescribesItselfInOneLine) {
  const auto described = [&] { return api_.last.describe(); };
  api_.allreduce(tensor_({1048576}));
  EXPECT_EQ(described(), "all_reduce(float32[1048576], SUM)");
  api_.broadcast(tensor_({2, 3}, DType::INT64), {.rootRank = 2});
  EXPECT_EQ(described(), "broadcast(int64[2, 3], root 2)");
  api_.allGatherSingle(tensor_({6}), tensor_({2}));
  EXPECT_EQ(described(), "all_gather_single(float32[2] -> float32[6])");
  api_.allreduceCoalesced(tensor_.many(3, {4}), {.reduceOp = ReduceOp::AVG});
  EXPECT_EQ(described(), "all_reduce_coalesced(float32[4] and 2 more, AVG)");
  api_.send(tensor_({4}), 2, 7);
  EXPECT_EQ(described(), "send(float32[4], to 2, tag 7)");
  api_.barrier();
  EXPECT_EQ(described(), "barrier()");
}

}  // namespace
}  // namespace unisono

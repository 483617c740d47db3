// Batches of operations in the native backend, between threads that are ranks.
#include "backend/native/batch.hpp"

#include <gmock/gmock.h>

#include "backend/native_world.hpp"
#include "work/sample_calls.hpp"

namespace unisono {
namespace {

using test::NativeWorld;
using test::reasonOf;
using ::testing::Each;
using namespace std::chrono_literals;

CollectiveArgs reduction(Tensor tensor, ReduceOp op = ReduceOp::SUM) {
  CollectiveArgs args;
  args.type = OpType::ALLREDUCE;
  args.reduceOp = op;
  args.outputs = std::move(tensor);
  return args;
}

CollectiveArgs message(OpType type, Tensor tensor, int peer) {
  CollectiveArgs args;
  args.type = type;
  args.peer = peer;
  (type == OpType::SEND ? args.inputs : args.outputs) = std::move(tensor);
  return args;
}

CollectiveArgs broadcast(Tensor tensor, int root) {
  CollectiveArgs args;
  args.type = OpType::BROADCAST;
  args.root = root;
  args.outputs = std::move(tensor);
  return args;
}

class FusionTest : public ::testing::Test {
 protected:
  test::TensorMaker tensor_;
};

TEST_F(FusionTest, MakesOneCallOfSmallNeighboursOfOneKind) {
  std::vector<CollectiveArgs> batch;
  for (int i = 0; i < 100; ++i) {
    batch.push_back(reduction(tensor_({i % 7})));
  }
  const auto fused = fuseSmallReductions(std::move(batch));
  ASSERT_EQ(fused.size(), 1U);
  EXPECT_EQ(fused[0].type, OpType::ALLREDUCE_COALESCED);
  EXPECT_EQ(fused[0].outputs.size(), 100U);
}

TEST_F(FusionTest, KeepsApartWhatDoesNotBelongTogether) {
  std::vector<CollectiveArgs> batch;
  batch.push_back(reduction(tensor_({4})));
  batch.push_back(reduction(tensor_({4}, DType::FLOAT64)));
  batch.push_back(reduction(tensor_({4}, DType::FLOAT64), ReduceOp::MAX));
  batch.push_back(broadcast(tensor_({4}), 0));
  batch.push_back(reduction(tensor_({4}), ReduceOp::preMulSum(2)));
  batch.push_back(reduction(tensor_({4}), ReduceOp::preMulSum(2)));
  batch.push_back(reduction(tensor_({1 << 20})));
  batch.push_back(reduction(tensor_({1 << 20})));
  const auto fused = fuseSmallReductions(batch);
  ASSERT_EQ(fused.size(), batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    EXPECT_EQ(fused[i].type, batch[i].type) << i;
  }
}

TEST_F(FusionTest, NeverMakesALargeCallOfManySmallOnes) {
  std::vector<CollectiveArgs> batch;
  for (int i = 0; i < 100; ++i) {
    batch.push_back(reduction(tensor_({1000})));
  }
  std::size_t tensors = 0;
  for (const CollectiveArgs& args : fuseSmallReductions(std::move(batch))) {
    EXPECT_LE(args.outputs.size(), 8U);  // 32,000 bytes
    tensors += args.outputs.size();
  }
  EXPECT_EQ(tensors, 100U);
}

TEST_F(FusionTest, IsTheSameWhereverMessagesLie) {
  std::vector<CollectiveArgs> batch;
  batch.push_back(message(OpType::RECV, tensor_({4}), 0));
  batch.push_back(reduction(tensor_({4})));
  batch.push_back(message(OpType::SEND, tensor_({4}), 0));
  batch.push_back(reduction(tensor_({5})));
  const auto fused = fuseSmallReductions(std::move(batch));
  ASSERT_EQ(fused.size(), 3U);
  EXPECT_EQ(fused[0].type, OpType::RECV);
  EXPECT_EQ(fused[1].type, OpType::ALLREDUCE_COALESCED);
  EXPECT_EQ(fused[1].outputs.size(), 2U);
  EXPECT_EQ(fused[2].type, OpType::SEND);
}

TEST_F(FusionTest, AFusedCallHasTheLongestTimeOfItsParts) {
  std::vector<CollectiveArgs> batch;
  for (const auto timeout : {10ms, 30ms, 20ms}) {
    batch.push_back(reduction(tensor_({1})));
    batch.back().timeout = timeout;
  }
  EXPECT_EQ(fuseSmallReductions(std::move(batch)).at(0).timeout, 30ms);
}

class BatchTest : public ::testing::TestWithParam<int> {
 protected:
  NativeWorld world{GetParam()};
  const int n = GetParam();
};
INSTANTIATE_TEST_SUITE_P(Ranks, BatchTest, ::testing::Values(1, 2, 3, 5));

TEST_P(BatchTest, RunsCollectivesAndMessagesOfAnyKind) {
  world.run([&](NativeBackend& rank) {
    const int right = (rank.rank() + 1) % n;
    const int left = (rank.rank() + n - 1) % n;
    std::vector<std::vector<float>> small(50, std::vector<float>(10, 1));
    std::vector<float> large(100'000, 2);
    std::vector<double> root(7, rank.rank());
    std::vector<int> give(30'000, rank.rank());
    std::vector<int> get(30'000, -1);
    std::vector<CollectiveArgs> batch;
    batch.push_back(message(OpType::RECV, Tensor(get), left));
    for (std::vector<float>& each : small) {
      batch.push_back(reduction(Tensor(each)));
    }
    batch.push_back(reduction(Tensor(large)));
    batch.push_back(broadcast(Tensor(root), n - 1));
    batch.push_back(message(OpType::SEND, Tensor(give), right));

    const WorkPtr work = rank.submitCoalesced(std::move(batch));

    EXPECT_TRUE(work->wait());
    EXPECT_EQ(work->opType(), OpType::COALESCED);
    EXPECT_EQ(work->result().size(), 53U);
    for (const std::vector<float>& each : small) {
      ASSERT_THAT(each, Each(static_cast<float>(n)));
    }
    ASSERT_THAT(large, Each(static_cast<float>(2 * n)));
    ASSERT_THAT(root, Each(n - 1));
    ASSERT_THAT(get, Each(left));
  });
}

TEST_P(BatchTest, EndsEvenIfNobodyWaits) {
  world.run([&](NativeBackend& rank) {
    std::vector<float> data(10, 1);
    const WorkPtr work = rank.submitCoalesced({reduction(Tensor(data))});
    rank.barrier({.asyncOp = false})->wait();
    while (!work->isCompleted()) {
      std::this_thread::yield();
    }
    ASSERT_THAT(data, Each(static_cast<float>(n)));
  });
}

TEST_P(BatchTest, OfNothingIsOverAtOnce) {
  world.run([](NativeBackend& rank) { EXPECT_TRUE(rank.submitCoalesced({})->isCompleted()); });
}

TEST_P(BatchTest, StartsNothingWhenOneCallMakesNoSense) {
  world.run([&](NativeBackend& rank) {
    std::vector<float> data(10, 1);
    EXPECT_THROW(rank.submitCoalesced({reduction(Tensor(data)), broadcast(Tensor(data), n)}),
                 UsageError);
    rank.allreduce({Tensor(data)})->wait();
    ASSERT_THAT(data, Each(static_cast<float>(n)));
  });
}

// Messages are a matter of two ranks: others need not know of them.
TEST(BatchMessagesTest, MayLieAnywhereBetweenWhatAllRanksCall) {
  NativeWorld world(3);
  world.run([](NativeBackend& rank) {
    std::vector<float> one(10, 1);
    std::vector<float> two(10, 1);
    std::vector<int> note(3, rank.rank());
    std::vector<CollectiveArgs> batch;
    batch.push_back(reduction(Tensor(one)));
    if (rank.rank() == 0) {
      batch.push_back(message(OpType::SEND, Tensor(note), 1));
    }
    batch.push_back(reduction(Tensor(two)));
    if (rank.rank() == 1) {
      batch.push_back(message(OpType::RECV, Tensor(note), 0));
    }
    EXPECT_TRUE(rank.submitCoalesced(std::move(batch))->wait());
    EXPECT_THAT(one, Each(3.0F));
    EXPECT_THAT(two, Each(3.0F));
    EXPECT_THAT(note, Each(rank.rank() == 1 ? 0 : rank.rank()));
  });
}

TEST(BatchWaitTest, EndsAtItsOwnTimeAndLeavesTheBatchAlone) {
  NativeWorld world(2);
  std::vector<float> data(10, 1);
  std::vector<float> theirs(10, 1);
  CollectiveArgs patient = reduction(Tensor(data));
  patient.timeout = 20s;
  const WorkPtr work = world[0].submitCoalesced({patient});

  EXPECT_THROW(work->wait(10ms), DistTimeoutError);
  EXPECT_TRUE(world[1].submitCoalesced({reduction(Tensor(theirs))})->wait());
  EXPECT_TRUE(work->wait(60s));
  EXPECT_THAT(data, Each(2.0F));
}

TEST(BatchErrorTest, FailsOnceAllItsPartsHaveEnded) {
  NativeWorld world(2);
  const auto thrown = world.outcomes([](NativeBackend& rank) {
    if (rank.rank() == 1) {
      return;  // never calls
    }
    rank.setTimeout(100ms);  // not before: forming may take longer
    std::vector<float> data(10, 1);
    std::vector<int> get(1);
    const WorkPtr work =
        rank.submitCoalesced({message(OpType::RECV, Tensor(get), 1), reduction(Tensor(data)),
                              broadcast(Tensor(data), 0)});
    work->wait();
  });
  EXPECT_EQ(reasonOf<DistError>([&] { std::rethrow_exception(thrown.at(0)); }), Reason::TIMEOUT);
}

TEST(BatchErrorTest, RanksWhoseBatchesDifferAreTold) {
  NativeWorld world(2);
  const auto thrown = world.outcomes([](NativeBackend& rank) {
    std::vector<float> data(10, 1);
    std::vector<float> more(10, 1);
    std::vector<CollectiveArgs> batch;
    batch.push_back(reduction(Tensor(data)));
    if (rank.rank() == 0) {
      batch.push_back(reduction(Tensor(more)));
    }
    rank.submitCoalesced(std::move(batch))->wait();
  });
  for (const std::exception_ptr& each : thrown) {
    EXPECT_EQ(reasonOf<DistError>([&] { std::rethrow_exception(each); }), Reason::MISMATCH);
  }
}

}  // namespace
}  // namespace unisono

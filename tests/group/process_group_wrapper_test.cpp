#include "unisono/backend/process_group_wrapper.hpp"

#include <gmock/gmock.h>

#include "unisono/backend/fake_backend.hpp"
#include "unisono/base/debug_level.hpp"
#include "unisono/store/hash_store.hpp"

#include "base/str.hpp"
#include "group/in_world.hpp"
#include "store/expect.hpp"
#include "support/blocked_call.hpp"
#include "support/process_world.hpp"
#include "work/sample_calls.hpp"
#include "work/work_kinds.hpp"

namespace unisono {
namespace {

using namespace std::chrono_literals;
using test::BlockedCall;
using test::errorOf;
using test::inWorld;
using test::onThreads;
using test::TensorMaker;
using test::textOf;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Groups that are made while it lives compare their calls.
class AtDetail {
 public:
  AtDetail() { setDebugLevel(DebugLevel::DETAIL); }
  ~AtDetail() { setDebugLevel(before_); }
  AtDetail(const AtDetail&) = delete;
  AtDetail& operator=(const AtDetail&) = delete;

 private:
  const DebugLevel before_ = debugLevel();
};

class ProcessGroupWrapperTest : public ::testing::Test {
 protected:
  const AtDetail level_;
};

bool isWrapped(const Group& group) {
  const std::shared_ptr<Backend> backend = group.processGroup().defaultBackend();
  return dynamic_cast<const ProcessGroupWrapper*>(backend.get()) != nullptr;
}

TEST(ProcessGroupWrapperLevelTest, GroupsCompareTheirCallsAtDetailOnly) {
  for (const DebugLevel level : {DebugLevel::OFF, DebugLevel::INFO, DebugLevel::DETAIL}) {
    const AtDetail restored;
    setDebugLevel(level);
    inWorld(2, [&](Group world) {
      EXPECT_EQ(isWrapped(world), level == DebugLevel::DETAIL);
      EXPECT_EQ(world.processGroup().defaultBackend()->name(), "unisono");
    });
  }
}

TEST_F(ProcessGroupWrapperTest, GroupsMadeOutOfOthersCompareTheirCallsToo) {
  inWorld(3, [](Group world) {
    const std::optional<Group> pair = world.newGroup({0, 2});
    ASSERT_EQ(pair.has_value(), world.rank() != 1);
    EXPECT_TRUE(!pair || isWrapped(*pair));
  });
}

TEST_F(ProcessGroupWrapperTest, EveryOperationDoesWhatItDoesWithoutIt) {
  inWorld(3, [](Group world) {
    const int me = world.rank();
    std::vector<float> sum(5, 1);
    world.allReduce(sum);
    world.allReduce(sum, {.async = true})->wait();
    EXPECT_THAT(sum, Each(9.0F));

    const std::vector<int> mine = {me};
    std::vector<int> all(3);
    world.allGather(mine, all);
    EXPECT_THAT(all, ElementsAre(0, 1, 2));

    std::vector<int> part(1);
    world.reduceScatter(all, part);
    EXPECT_THAT(part, ElementsAre(3 * me));
    std::vector<int> taken(3);
    world.allToAll(std::vector<int>(3, me), taken);
    EXPECT_THAT(taken, ElementsAre(0, 1, 2));
    world.broadcast(part, {.root = 2});
    EXPECT_THAT(part, ElementsAre(6));
    world.reduce(part, {.root = 1});
    world.barrier();
    world.monitoredBarrier({.timeout = 20s});
    EXPECT_TRUE(world.allocate(4).defined());
  });
}

TEST_F(ProcessGroupWrapperTest, PartsWhoseSizesDifferByRankAreNoMistake) {
  inWorld(2, [](Group world) {
    const auto mine = static_cast<std::size_t>(world.rank() + 1);
    std::vector<int> give(mine, world.rank());
    std::vector<int> one(1);
    std::vector<int> two(2);
    world.allGather(give, {Tensor(one), Tensor(two)});
    EXPECT_THAT(two, Each(1));
    world.reduceScatter({Tensor(one), Tensor(two)}, give);
    EXPECT_THAT(give, Each(world.rank() == 0 ? 0 : 2));
  });
}

TEST_F(ProcessGroupWrapperTest, MessagesBetweenFewRanksDoNotPutTheOthersOutOfStep) {
  inWorld(3, [](Group world) {
    std::vector<int> value = {world.rank()};
    if (world.rank() == 0) {
      world.send(value, 2);
    } else if (world.rank() == 2) {
      world.recv(value, 0);
    }
    world.allReduce(value);
    EXPECT_THAT(value, ElementsAre(1));
  });
}

/// What the call of each rank throws, in a world of three which then agrees again.
std::vector<ErrorFacts> mismatchOf(const std::function<void(Group&)>& call) {
  std::vector<ErrorFacts> thrown(3);
  inWorld(3, [&](Group world) {
    const auto facts = errorOf<DistBackendError>([&] { call(world); });
    thrown[static_cast<std::size_t>(world.rank())] = facts.value_or(ErrorFacts{});
    std::vector<int> ones(2, 1);
    world.allReduce(ones);
    EXPECT_THAT(ones, Each(3)) << "nothing was started: the group can be used";
  });
  return thrown;
}

TEST_F(ProcessGroupWrapperTest, AnotherShapeIsToldToEveryRankWithWhoCalledWhat) {
  const std::vector<ErrorFacts> thrown = mismatchOf([](Group& world) {
    TensorMaker tensor;
    world.allReduce(world.rank() == 1 ? tensor({10, 20}) : tensor({20, 10}));
  });

  for (const ErrorFacts& facts : thrown) {
    EXPECT_EQ(facts.reason, Reason::MISMATCH);
    EXPECT_THAT(facts.culprits, ElementsAre(1));
    EXPECT_EQ(facts.op, "all_reduce");
    EXPECT_THAT(facts.what,
                AllOf(HasSubstr("Detected mismatch between collectives on ranks. Rank "),
                      HasSubstr("Collectives differ in the following aspects: Tensor shapes: ")));
  }
  const std::string usual =
      "is running collective: CollectiveFingerPrint(SequenceNumber=1, OpType=ALLREDUCE, "
      "TensorShape=[20, 10], TensorDtypes=Float, TensorDeviceTypes=cpu, ReduceOp=SUM)";
  EXPECT_THAT(thrown[0].what, AllOf(HasSubstr("Rank 0 " + usual + ", but Rank 1 is running"),
                                    HasSubstr("aspects: Tensor shapes: [20, 10] vs [10, 20]")));
  EXPECT_THAT(thrown[1].what, AllOf(HasSubstr(", but Rank 0 " + usual),
                                    HasSubstr("aspects: Tensor shapes: [10, 20] vs [20, 10]")));
}

TEST_F(ProcessGroupWrapperTest, AnotherOperationIsTold) {
  const std::vector<ErrorFacts> thrown = mismatchOf([](Group& world) {
    std::vector<float> values(2);
    world.rank() == 2 ? world.broadcast(values) : world.allReduce(values);
  });

  for (const ErrorFacts& facts : thrown) {
    EXPECT_THAT(facts.culprits, ElementsAre(2));
    EXPECT_THAT(facts.what, AllOf(HasSubstr("OpType=ALLREDUCE"), HasSubstr("OpType=BROADCAST"),
                                  HasSubstr("Op type: "), Not(HasSubstr("Tensor shapes:"))));
  }
}

TEST_F(ProcessGroupWrapperTest, AnotherTypeReductionOrRootIsTold) {
  const auto types = mismatchOf([](Group& world) {
    TensorMaker tensor;
    world.allReduce(tensor({2}, world.rank() == 0 ? DType::INT64 : DType::FLOAT32));
  });
  EXPECT_THAT(types[0].what, HasSubstr("aspects: Tensor dtypes: Long vs Float"));

  const auto reductions = mismatchOf([](Group& world) {
    std::vector<float> values(2);
    world.allReduce(values, {.op = world.rank() == 0 ? ReduceOp::MAX : ReduceOp::SUM});
  });
  EXPECT_THAT(reductions[0].what, HasSubstr("aspects: Reduction: MAX vs SUM"));

  const auto roots = mismatchOf([](Group& world) {
    std::vector<float> values(2);
    world.broadcast(values, {.root = world.rank() == 0 ? 2 : 1});
  });
  EXPECT_THAT(roots[0].what, HasSubstr("aspects: Root: 2 vs 1"));
  EXPECT_THAT(roots[1].culprits, ElementsAre(0));
}

TEST_F(ProcessGroupWrapperTest, CallsThatAreAllDifferentAreAllTold) {
  const std::vector<ErrorFacts> thrown = mismatchOf([](Group& world) {
    TensorMaker tensor;
    world.allReduce(tensor({world.rank() + 5}));
  });

  for (const ErrorFacts& facts : thrown) {
    EXPECT_THAT(facts.what, AllOf(HasSubstr("[5]"), HasSubstr("[6]"), HasSubstr("[7]")));
  }
}

TEST_F(ProcessGroupWrapperTest, ALateTensorOfManyThatDiffersIsFound) {
  const std::vector<ErrorFacts> thrown = mismatchOf([](Group& world) {
    TensorMaker tensor;
    std::vector<Tensor> many = tensor.many(40, {2, 3});
    many.back() = world.rank() == 1 ? tensor({3, 2}) : tensor({2, 3});
    world.processGroup().allreduceCoalesced(many)->wait();
  });

  EXPECT_THAT(thrown[0].what,
              AllOf(HasSubstr("and 3 more"), HasSubstr("a tensor after the first")));
}

TEST_F(ProcessGroupWrapperTest, ARankThatDoesNotCallIsNamedWithTheCall) {
  inWorld(2, [](Group world) {
    if (world.rank() == 1) {
      return;
    }
    std::vector<float> values(3);
    const auto call = [&] { world.allReduce(values, {.timeout = 150ms}); };
    EXPECT_THAT(textOf<DistError>(call),
                AllOf(HasSubstr("ProcessGroupWrapper: Monitored Barrier encountered error running "
                                "collective: CollectiveFingerPrint(SequenceNumber=1, "
                                "OpType=ALLREDUCE, TensorShape=[3]"),
                      HasSubstr("culprits=[1]")));
  });
}

TEST_F(ProcessGroupWrapperTest, OneRankThatPretendsToBeManyAgreesWithItself) {
  inWorld(1,
          [](Group world) {
            std::vector<float> values(3, 2);
            world.allReduce(values);
            EXPECT_TRUE(isWrapped(world));
            EXPECT_EQ(world.processGroup().defaultBackend()->name(), "fake");
          },
          {.backend = "fake"});

  ProcessGroupWrapper many(std::make_shared<FakeBackend>(BackendParams{.rank = 5, .size = 64}));
  TensorMaker tensor;
  EXPECT_TRUE(many.allreduce(tensor({4}))->wait());
  EXPECT_TRUE(many.barrier()->wait());
  many.monitoredBarrier({}, false);
  EXPECT_EQ(many.rank(), 5);
  const std::shared_ptr<Backend> part = many.split(nullptr, {5, 7}, {});
  EXPECT_EQ(part->size(), 2);
  EXPECT_NE(dynamic_cast<const ProcessGroupWrapper*>(part.get()), nullptr);
}

/// Ends everything at once, and cannot gather: what its ranks compare goes by the store.
class NoGatherBackend final : public Backend {
 public:
  explicit NoGatherBackend(const BackendParams& params)
      : Backend(params,
                {.ops = {OpType::ALLREDUCE, OpType::BARRIER, OpType::SEND}, .coalescing = true}) {}
  std::string_view name() const noexcept override { return "no_gather"; }
  WorkPtr start(CollectiveArgs&& args) override {
    return isAborted_ ? failedWork(args.type, args.seq, test::peerDied()) : finishedWork();
  }
  WorkPtr startCoalesced(std::vector<CollectiveArgs>) override { return finishedWork(); }
  void abort(std::exception_ptr) override { isAborted_ = true; }

 private:
  std::atomic<bool> isAborted_{false};
};

class ByStoreTest : public ::testing::Test {
 protected:
  std::shared_ptr<ProcessGroupWrapper> rankOf(int rank, int size) {
    return std::make_shared<ProcessGroupWrapper>(
        std::make_shared<NoGatherBackend>(BackendParams{.rank = rank, .size = size}), store_);
  }
  const std::shared_ptr<HashStore> store_ = std::make_shared<HashStore>();
};

TEST_F(ByStoreTest, ABackendThatCannotGatherComparesByTheStore) {
  std::vector<std::string> texts(3);
  for (const std::exception_ptr& thrown : onThreads(3, [&](int rank) {
         const auto backend = rankOf(rank, 3);
         TensorMaker tensor;
         EXPECT_TRUE(backend->allreduce(tensor({2, 2}))->wait());
         texts[static_cast<std::size_t>(rank)] = textOf<DistBackendError>(
             [&] { rank == 0 ? backend->barrier() : backend->allreduce(tensor({4})); });
         EXPECT_TRUE(backend->barrier()->wait());
       })) {
    EXPECT_EQ(thrown, nullptr);
  }
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("[MISMATCH]"), HasSubstr("SequenceNumber=2"),
                                HasSubstr("OpType=BARRIER"), HasSubstr("culprits=[0]"))));
  EXPECT_EQ(store_->listKeys().size(), 3U) << "each rank leaves its last word only";
}

TEST_F(ByStoreTest, ARankThatDoesNotCallIsNamedAfterTheTimeout) {
  const auto backend = rankOf(0, 3);
  const auto facts = errorOf<DistTimeoutError>([&] { backend->barrier({.timeout = 50ms}); });
  EXPECT_THAT(facts->what, HasSubstr("rank 1, 2 did not call a collective"));
  EXPECT_THAT(facts->culprits, ElementsAre(1, 2));
}

TEST_F(ByStoreTest, AnAbortEndsACallThatWaitsForOthers) {
  const auto backend = rankOf(0, 2);
  BlockedCall waiting([&] { return backend->barrier()->exception() != nullptr; });
  backend->abort(nullptr);
  EXPECT_TRUE(waiting.result()) << "the backend tells of its abort";
}

TEST_F(ByStoreTest, ABatchThatOneRankLeftOutShowsInTheNumber) {
  std::vector<std::string> texts(2);
  for (const std::exception_ptr& thrown : onThreads(2, [&](int rank) {
         const auto backend = rankOf(rank, 2);
         std::vector<CollectiveArgs> batch(1);
         batch[0].type = OpType::BARRIER;
         if (rank == 0) {
           backend->submitCoalesced(std::move(batch));
         }
         texts[static_cast<std::size_t>(rank)] =
             textOf<DistBackendError>([&] { backend->barrier(); });
       })) {
    EXPECT_EQ(thrown, nullptr);
  }
  EXPECT_THAT(texts[0], HasSubstr("aspects: Sequence number: 2 vs 1"));
  EXPECT_THAT(texts[1], HasSubstr("aspects: Sequence number: 1 vs 2"));
}

TEST_F(ByStoreTest, MessagesAreNotCompared) {
  TensorMaker tensor;
  EXPECT_TRUE(rankOf(0, 2)->send(tensor({4}), 1)->wait());
  EXPECT_THAT(store_->listKeys(), IsEmpty());
}

TEST(ProcessGroupWrapperProcessesTest, RanksAtDifferentLevelsMakeNoGroup) {
  const test::ProcessWorld world(2);
  const auto thrown = world.outcomes([&](int rank) {
    const AtDetail restored;
    setDebugLevel(rank == 1 ? DebugLevel::DETAIL : DebugLevel::OFF);
    init({.store = test::ProcessWorld::store(), .rank = rank, .size = 2});
  });
  for (const std::exception_ptr& each : thrown) {
    EXPECT_THAT(test::textOfThrown(each), HasSubstr("debug=detail"));
  }
}

TEST(ProcessGroupWrapperRefusalTest, WithoutAGatherAndAStoreThereIsNoWayToCompare) {
  const auto backend = std::make_shared<NoGatherBackend>(BackendParams{.rank = 0, .size = 2});
  EXPECT_THROW(ProcessGroupWrapper{backend}, UsageError);
  EXPECT_THROW(ProcessGroupWrapper{nullptr}, UsageError);
}

TEST(ProcessGroupWrapperRefusalTest, WhatTheBackendDoesNotOfferIsRefusedBeforeAnythingIsCompared) {
  const auto store = std::make_shared<HashStore>();
  ProcessGroupWrapper backend(
      std::make_shared<NoGatherBackend>(BackendParams{.rank = 0, .size = 2}), store);
  TensorMaker tensor;
  EXPECT_THAT(textOf<NotSupportedError>([&] { backend.broadcast(tensor({4})); }),
              HasSubstr("Backend no_gather does not support broadcast"));
  EXPECT_THAT(store->listKeys(), IsEmpty());
}

}  // namespace
}  // namespace unisono

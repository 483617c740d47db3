// What the native backend does with tensors, between threads that are ranks.
#include "backend/native/native_backend.hpp"

#include <algorithm>
#include <gmock/gmock.h>
#include <numeric>

#include "backend/native/executor.hpp"
#include "backend/native_world.hpp"

namespace unisono {
namespace {

using test::NativeWorld;
using test::onThreads;
using test::textOf;
using test::textOfThrown;
using test::ThreadWorld;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

class NativeBackendTest : public ::testing::TestWithParam<int> {
 protected:
  NativeWorld world{GetParam()};
  const int n = GetParam();
  const float sum = static_cast<float>(n * (n + 1)) / 2;
};
INSTANTIATE_TEST_SUITE_P(Ranks, NativeBackendTest, ::testing::Values(1, 2, 3, 5));

TEST_P(NativeBackendTest, AllReducesAtOnceAndInTheBackground) {
  world.run([&](NativeBackend& rank) {
    std::vector<float> now(1000, static_cast<float>(rank.rank() + 1));
    std::vector<float> later(70'000, static_cast<float>(rank.rank() + 1));

    const WorkPtr pending = rank.allreduce({Tensor(later)});
    rank.allreduce({Tensor(now)}, {.asyncOp = false})->wait();
    EXPECT_TRUE(pending->wait());

    ASSERT_TRUE(std::all_of(now.begin(), now.end(), [&](float v) { return v == sum; }));
    ASSERT_TRUE(std::all_of(later.begin(), later.end(), [&](float v) { return v == sum; }));
  });
}

TEST_P(NativeBackendTest, KeepsThousandsInFlight) {
  world.run([&](NativeBackend& rank) {
    std::vector<std::vector<std::int64_t>> data(2000, std::vector<std::int64_t>(3));
    std::vector<WorkPtr> works;
    for (std::size_t i = 0; i < data.size(); ++i) {
      std::fill(data[i].begin(), data[i].end(), static_cast<std::int64_t>(i));
      works.push_back(rank.allreduce({Tensor(data[i])}));
    }
    rank.barrier({.asyncOp = false})->wait();
    for (std::size_t i = 0; i < data.size(); ++i) {
      EXPECT_TRUE(works[i]->isCompleted()) << "a barrier ends what was started before";
      ASSERT_THAT(data[i], Each(static_cast<std::int64_t>(i) * n));
    }
  });
}

TEST_P(NativeBackendTest, ReachesOnlyTheElementsOfAStridedView) {
  world.run([&](NativeBackend& rank) {
    std::vector<float> memory(60, -1);
    const Tensor columns(memory.data() + 1, DType::FLOAT32, {6, 3}, {10, 2});
    for (int row = 0; row < 6; ++row) {
      for (int column = 0; column < 3; ++column) {
        memory[static_cast<std::size_t>(1 + row * 10 + column * 2)] =
            static_cast<float>(row * 3 + column + rank.rank());
      }
    }
    rank.allreduce({columns}, {.asyncOp = false})->wait();

    for (int at = 0; at < 60; ++at) {
      const int row = at / 10;
      const int column = (at % 10 - 1) / 2;
      const bool inView = at % 10 % 2 == 1 && at % 10 <= 5;
      const int right = inView ? n * (row * 3 + column) + n * (n - 1) / 2 : -1;
      ASSERT_EQ(memory[static_cast<std::size_t>(at)], static_cast<float>(right)) << at;
    }
  });
}

TEST_P(NativeBackendTest, BroadcastsTheRootsTensor) {
  world.run([&](NativeBackend& rank) {
    for (int root = 0; root < n; ++root) {
      std::vector<std::int32_t> data(500, rank.rank() == root ? 77 + root : 0);
      rank.broadcast({Tensor(data)}, {.rootRank = root, .asyncOp = false})->wait();
      ASSERT_THAT(data, Each(77 + root));
    }
  });
}

TEST_P(NativeBackendTest, ReducesToTheRootAndLeavesTheOthersAlone) {
  world.run([&](NativeBackend& rank) {
    for (int root = 0; root < n; ++root) {
      std::vector<float> data(9000, static_cast<float>(rank.rank() + 1));
      rank.reduce({Tensor(data)}, {.rootRank = root, .asyncOp = false})->wait();
      const float right = rank.rank() == root ? sum : static_cast<float>(rank.rank() + 1);
      ASSERT_TRUE(std::all_of(data.begin(), data.end(), [&](float v) { return v == right; }));
    }
  });
}

TEST_P(NativeBackendTest, GathersFromAll) {
  world.run([&](NativeBackend& rank) {
    const auto size = static_cast<std::size_t>(n);
    std::vector<std::int16_t> mine(3, static_cast<std::int16_t>(rank.rank()));
    std::vector<std::int16_t> all(3 * size);
    rank.allGatherSingle(Tensor(all), Tensor(mine), {.asyncOp = false})->wait();
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(all[i], static_cast<std::int16_t>(i / 3));
    }

    std::vector<std::vector<std::int16_t>> lists(size, std::vector<std::int16_t>(3));
    std::vector<Tensor> outputs;
    for (auto& list : lists) {
      outputs.emplace_back(list);
    }
    rank.allgather({outputs}, {Tensor(mine)}, {.asyncOp = false})->wait();
    for (std::size_t peer = 0; peer < size; ++peer) {
      ASSERT_THAT(lists[peer], Each(static_cast<std::int16_t>(peer)));
    }
  });
}

TEST_P(NativeBackendTest, GathersToAndScattersFromTheRoot) {
  world.run([&](NativeBackend& rank) {
    const auto size = static_cast<std::size_t>(n);
    const int root = n - 1;
    std::vector<std::vector<double>> lists(size, std::vector<double>(4));
    std::vector<Tensor> tensors;
    for (auto& list : lists) {
      tensors.emplace_back(list);
    }
    std::vector<double> mine(4, rank.rank() * 1.5);
    const bool isRoot = rank.rank() == root;
    std::vector<std::vector<Tensor>> rootsLists;
    if (isRoot) {
      rootsLists.push_back(tensors);
    }
    rank.gather(rootsLists, {Tensor(mine)}, {.rootRank = root, .asyncOp = false})->wait();
    for (std::size_t peer = 0; isRoot && peer < size; ++peer) {
      ASSERT_THAT(lists[peer], Each(static_cast<double>(peer) * 1.5));
    }
    std::fill(mine.begin(), mine.end(), -1);
    rank.scatter({Tensor(mine)}, rootsLists, {.rootRank = root, .asyncOp = false})->wait();
    ASSERT_THAT(mine, Each(rank.rank() * 1.5));
  });
}

TEST_P(NativeBackendTest, ReduceScattersAndExchanges) {
  world.run([&](NativeBackend& rank) {
    const auto size = static_cast<std::size_t>(n);
    std::vector<float> in(2 * size);
    std::iota(in.begin(), in.end(), static_cast<float>(rank.rank()));
    std::vector<float> out(2);
    rank.reduceScatterSingle(Tensor(out), Tensor(in), {.asyncOp = false})->wait();
    const auto right = [&](int i) { return static_cast<float>(n * i + n * (n - 1) / 2); };
    ASSERT_THAT(out, ElementsAre(right(2 * rank.rank()), right(2 * rank.rank() + 1)));

    // Rank r gives r + 1 rows to each.
    std::vector<std::int64_t> give(size, rank.rank() + 1);
    std::vector<std::int64_t> take(size);
    std::iota(take.begin(), take.end(), 1);
    std::vector<std::int32_t> sent(size * static_cast<std::size_t>(rank.rank() + 1), rank.rank());
    std::vector<std::int32_t> got(size * (size + 1) / 2, -1);
    rank.allToAllSingle(Tensor(got), Tensor(sent), take, give, {.asyncOp = false})->wait();
    std::vector<std::int32_t> expected;
    for (int peer = 0; peer < n; ++peer) {
      expected.insert(expected.end(), static_cast<std::size_t>(peer + 1), peer);
    }
    ASSERT_EQ(got, expected);
  });
}

TEST_P(NativeBackendTest, CoalescesTensorsOfDifferentShapes) {
  world.run([&](NativeBackend& rank) {
    std::vector<float> a(3, 1);
    std::vector<float> b(1000, static_cast<float>(rank.rank()));
    std::vector<float> none;
    rank.allreduceCoalesced({Tensor(a), Tensor(none), Tensor(b)}, {})->wait();
    ASSERT_THAT(a, Each(static_cast<float>(n)));
    ASSERT_THAT(b, Each(static_cast<float>(n * (n - 1) / 2)));
  });
}

TEST_P(NativeBackendTest, EmptyTensorsAreNoTrouble) {
  world.run([&](NativeBackend& rank) {
    std::vector<float> none;
    for (int turn = 0; turn < 10; ++turn) {
      rank.allreduce({Tensor(none)}, {.asyncOp = false})->wait();
      rank.broadcast({Tensor(none)}, {.asyncOp = false})->wait();
      rank.allGatherSingle(Tensor(none), Tensor(none), {.asyncOp = false})->wait();
    }
  });
}

TEST(NativeBackendGroupTest, ARankThatMayUseFewerCoresChoosesAsTheOthersDo) {
  const auto store = std::make_shared<HashStore>();
  const auto thrown = onThreads(2, [&](int rank) {
    if (rank == 1) {
      test::pinTo(test::allowedCores().front());
    }
    NativeBackend backend(
        {.store = store, .rank = rank, .size = 2, .options = {.timeout = 20s, .groupName = "g"}});
    for (const std::size_t size : {std::size_t{2}, std::size_t{1000}, std::size_t{50'000}}) {
      std::vector<float> data(size, 1);
      backend.allreduce({Tensor(data)}, {.asyncOp = false})->wait();
      EXPECT_THAT(data, Each(2));
      backend.broadcast({Tensor(data)}, {.asyncOp = false})->wait();
      backend.barrier({.asyncOp = false})->wait();
    }
  });

  EXPECT_THAT(thrown, Each(nullptr)) << textOfThrown(thrown[0]) << textOfThrown(thrown[1]);
}

TEST(NativeBackendErrorTest, RanksThatTookDifferentAlgorithmsDoNotWaitForEachOther) {
  ThreadWorld world(2);
  const Selector selector;
  const auto thrown = onThreads(2, [&](int rank) {
    // One believes that the ranks have a core each, the other that they have not.
    shm::Arena arena(world.segment(rank),
                     {.cores = 2 - rank, .globalRanks = {0, 1}, .describe = Executor::describe});
    std::vector<float> data(2);
    CollectiveArgs args;
    args.type = OpType::ALLREDUCE;
    args.outputs = {Tensor(data)};
    Executor(arena, selector).run(args, 20s);
  });

  EXPECT_THAT(textOfThrown(thrown[0]) + textOfThrown(thrown[1]),
              AllOf(HasSubstr("[MISMATCH]"), HasSubstr("by another algorithm")));
}

TEST(NativeBackendErrorTest, RanksThatDisagreeAreToldWhatTheOthersCall) {
  NativeWorld world(3);
  const auto thrown = world.outcomes([](NativeBackend& rank) {
    std::vector<float> data(rank.rank() == 1 ? 1001 : 1000);
    rank.allreduce({Tensor(data)}, {.asyncOp = false})->wait();
    rank.barrier({.asyncOp = false})->wait();  // who got through learns of it here
  });

  for (const std::exception_ptr& each : thrown) {
    EXPECT_THAT(textOfThrown(each),
                AllOf(HasSubstr("[MISMATCH]"), HasSubstr("all_reduce(float32[1001], SUM)"),
                      HasSubstr("all_reduce(float32[1000], SUM)")));
  }
}

TEST(NativeBackendErrorTest, DifferentOperationsOrRootsOrTypesDoNotMatch) {
  const auto outcomeOf = [](const std::function<void(NativeBackend&)>& body) {
    NativeWorld world(2);
    const auto thrown = world.outcomes([&](NativeBackend& rank) {
      body(rank);
      rank.barrier({.asyncOp = false})->wait();
    });
    return textOfThrown(thrown[0]) + textOfThrown(thrown[1]);
  };
  std::vector<float> data(10);
  EXPECT_THAT(outcomeOf([](NativeBackend& rank) {
                std::vector<float> mine(10);
                const Tensor tensor(mine);
                (rank.rank() == 0 ? rank.allreduce({tensor}, {.asyncOp = false})
                                  : rank.broadcast({tensor}, {.asyncOp = false}))
                    ->wait();
              }),
              AllOf(HasSubstr("[MISMATCH]"), HasSubstr("all_reduce("), HasSubstr("broadcast(")));
  EXPECT_THAT(outcomeOf([](NativeBackend& rank) {
                std::vector<float> mine(10);
                rank.broadcast({Tensor(mine)}, {.rootRank = rank.rank(), .asyncOp = false})->wait();
              }),
              AllOf(HasSubstr("[MISMATCH]"), HasSubstr("root 0"), HasSubstr("root 1")));
  EXPECT_THAT(outcomeOf([](NativeBackend& rank) {
                std::vector<double> mine(10);
                const Tensor tensor(mine.data(), rank.rank() == 0 ? DType::FLOAT64 : DType::INT64,
                                    {10});
                rank.allreduce({tensor}, {.asyncOp = false})->wait();
              }),
              AllOf(HasSubstr("[MISMATCH]"), HasSubstr("float64[10]"), HasSubstr("int64[10]")));
}

TEST(NativeBackendErrorTest, AnAbortEndsWhatOthersWaitFor) {
  NativeWorld world(3);
  const auto thrown = world.outcomes([](NativeBackend& rank) {
    if (rank.rank() == 2) {
      rank.abort(nullptr);
      return;
    }
    std::vector<float> data(10);
    rank.allreduce({Tensor(data)})->wait();
  });

  EXPECT_THAT(textOfThrown(thrown[0]), AllOf(HasSubstr("[ABORTED]"), HasSubstr("rank 2 called")));
  EXPECT_THAT(textOfThrown(thrown[1]), HasSubstr("culprits=[2]"));
  EXPECT_THAT(
      textOfThrown(onThreads(1, [&](int) { world[2].barrier({.asyncOp = false})->wait(); })[0]),
      HasSubstr("[ABORTED]"));
  EXPECT_EQ(world[0].error(), ErrorType::COMM_ERROR);
}

TEST(NativeBackendErrorTest, WhatIsRefusedLeavesTheGroupInStep) {
  NativeWorld world(2);
  world.run([](NativeBackend& rank) {
    std::vector<float> data(10, 1);
    if (rank.rank() == 0) {
      EXPECT_THROW(rank.broadcast({Tensor(data)}, {.rootRank = 7}), UsageError);
      EXPECT_THROW(rank.allreduce({Tensor(data)}, {.reduceOp = ReduceOp::BXOR}), UsageError);
      EXPECT_THROW(rank.send({Tensor(data)}, 7, 0), UsageError);
    }
    rank.allreduce({Tensor(data)}, {.asyncOp = false})->wait();
    ASSERT_THAT(data, Each(2.0F));
  });
}

TEST(NativeBackendErrorTest, AfterShutdownEverythingIsRefused) {
  NativeWorld world(1);
  world[0].shutdown();
  std::vector<float> data(10);

  EXPECT_THAT(textOf<DistBackendError>(
                  [&] { world[0].allreduce({Tensor(data)}, {.asyncOp = false})->wait(); }),
              HasSubstr("[SHUTDOWN]"));
}

TEST(NativeBackendErrorTest, ShutdownWaitsNoLongerThanTheTimeoutOfTheGroup) {
  NativeWorld world(2);
  std::vector<float> data(10);
  const WorkPtr running = world[0].allreduce({Tensor(data)}, {.timeout = 10min});
  const WorkPtr queued = world[0].allreduce({Tensor(data)}, {.timeout = 10min});
  world[0].setTimeout(50ms);

  EXPECT_THAT(textOf<DistTimeoutError>([&] { world[0].shutdown(); }),
              AllOf(HasSubstr("rank 0 shut the group down"), HasSubstr("50ms later")));

  EXPECT_TRUE(running->isCompleted());
  EXPECT_THROW(running->wait(), DistTimeoutError);
  EXPECT_THROW(queued->wait(), DistTimeoutError);
  EXPECT_THAT(textOf<DistTimeoutError>([&] { world[1].barrier({.asyncOp = false})->wait(); }),
              HasSubstr("rank 0 shut the group down"));
}

// Until the peer comes, which is later than each of the waits lasts.
TEST(NativeBackendWaitTest, EndsAtItsOwnTimeAndLeavesTheOperationAlone) {
  NativeWorld world(2);
  std::vector<float> data(10, 1);
  std::vector<float> theirs(10, 1);
  const WorkPtr first = world[0].barrier({.timeout = 20s});
  const WorkPtr work = world[0].allreduce({Tensor(data)}, {.timeout = 20s});
  const auto start = std::chrono::steady_clock::now();

  EXPECT_THAT(textOf<DistTimeoutError>([&] { work->wait(10ms); }),
              HasSubstr("Operation timed out!"));
  EXPECT_THROW(first->wait(10ms), DistTimeoutError);
  EXPECT_THROW(work->getFuture().wait(10ms), DistTimeoutError);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 15s);

  world[1].barrier({.asyncOp = false})->wait();
  world[1].allreduce({Tensor(theirs)}, {.asyncOp = false})->wait();
  EXPECT_TRUE(work->wait(60s));
  EXPECT_THAT(data, Each(2.0F));
}

TEST(NativeBackendWaitTest, MayBeLongerThanTheOperationMayTake) {
  NativeWorld world(2);
  const WorkPtr work = world[0].barrier({.timeout = 30ms});
  EXPECT_THAT(textOf<DistTimeoutError>([&] { work->wait(60s); }),
              HasSubstr("Timed out waiting 30ms"));
}

TEST(NativeBackendErrorTest, PeersLearnThatARankHasShutDown) {
  NativeWorld world(2);
  world[1].shutdown();

  EXPECT_THAT(textOf<DistBackendError>([&] { world[0].barrier({.asyncOp = false})->wait(); }),
              AllOf(HasSubstr("[PEER_LEFT]"), HasSubstr("culprits=[1]")));
}

}  // namespace
}  // namespace unisono

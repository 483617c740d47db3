// What a monitored barrier tells when somebody does not come.
#include <atomic>
#include <gmock/gmock.h>

#include "backend/native_world.hpp"
#include "support/blocked_call.hpp"

namespace unisono {
namespace {

using test::BlockedCall;
using test::NativeWorld;
using test::textOf;
using test::textOfThrown;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

constexpr auto kLong = 60s;  // no test waits for it to pass

std::string reachedBy(int rank) {
  return "Rank " + std::to_string(rank) +
         " successfully reached monitoredBarrier, but received errors while waiting for send/recv "
         "from rank 0";
}

/// What the barrier fails with on one rank.
std::string errorAt(Backend& rank, const BarrierOptions& opts = {}, bool waitAll = false) {
  return textOf<DistError>([&] { rank.monitoredBarrier(opts, waitAll); });
}

class MonitoredBarrierTest : public ::testing::TestWithParam<int> {
 protected:
  NativeWorld world_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Ranks, MonitoredBarrierTest, ::testing::Values(1, 2, 3, 5));

TEST_P(MonitoredBarrierTest, LetsNobodyGoBeforeAllHaveCome) {
  std::atomic<int> come{0};
  world_.run([&](Backend& rank) {
    for (int turn = 1; turn <= 50; ++turn) {
      come += 1;
      rank.monitoredBarrier({.timeout = kLong}, turn % 2 == 0);
      ASSERT_GE(come, turn * GetParam());
    }
  });
}

TEST_P(MonitoredBarrierTest, WaitsForWhatWasCalledBeforeAndLeavesTheGroupInStep) {
  world_.run([&](Backend& rank) {
    std::vector<std::vector<float>> data(20, std::vector<float>(1000, 1));
    for (std::vector<float>& each : data) {
      const WorkPtr pending = rank.allreduce({Tensor(each)});
      rank.monitoredBarrier({.timeout = kLong});
      EXPECT_TRUE(pending->isCompleted());
      rank.broadcast({Tensor(each)}, {.asyncOp = false})->wait();
      ASSERT_THAT(each, Each(static_cast<float>(GetParam())));
    }
  });
}

TEST(MonitoredBarrierErrorTest, TheFirstRankThatDoesNotComeIsNamedToAll) {
  NativeWorld world(5, {.timeout = kLong, .groupName = "g", .globalRanks = {10, 11, 12, 13, 14}});
  BlockedCall one([&] { return errorAt(world[1]); });
  BlockedCall three([&] { return errorAt(world[3]); });

  EXPECT_THAT(errorAt(world[0], {.timeout = 100ms}),
              AllOf(HasSubstr("[Rank 0]: Rank 2 failed to pass monitoredBarrier in 100 ms"),
                    HasSubstr("Waiting for rank 12 "), HasSubstr("[TIMEOUT]"),
                    HasSubstr("op=monitored_barrier"), HasSubstr("culprits=[12]")));
  EXPECT_THAT(one.result(), AllOf(HasSubstr(reachedBy(1)), HasSubstr("Rank 2 failed to pass"),
                                  HasSubstr("culprits=[12]")));
  EXPECT_THAT(three.result(), AllOf(HasSubstr(reachedBy(3)), HasSubstr("Rank 2 failed to pass")));
  EXPECT_THAT(errorAt(world[2]), AllOf(HasSubstr(reachedBy(2)), HasSubstr("Rank 2 failed to pass")))
      << "who comes too late is told, too";
  EXPECT_EQ(world[0].error(), ErrorType::TIMEOUT);
}

TEST(MonitoredBarrierErrorTest, AllWhoDoNotComeAreNamedWhenAskedFor) {
  NativeWorld world(4, {.timeout = kLong, .groupName = "g"});
  BlockedCall two([&] { return errorAt(world[2]); });

  EXPECT_THAT(errorAt(world[0], {.timeout = 50ms}, true),
              AllOf(HasSubstr("[Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 50 ms"),
                    HasSubstr("culprits=[1,3]")));
  EXPECT_THAT(two.result(), AllOf(HasSubstr(reachedBy(2)), HasSubstr("Ranks 1, 3 failed to pass")));
}

TEST(MonitoredBarrierErrorTest, NoTimeIsNotEnoughForAnybody) {
  NativeWorld world(3, {.timeout = kLong, .groupName = "g"});
  const auto thrown =
      world.outcomes([](Backend& rank) { rank.monitoredBarrier({.timeout = 0ms}); });

  EXPECT_THAT(textOfThrown(thrown[0]),
              AllOf(HasSubstr("Rank 0 timed out in monitoredBarrier after 0 ms"),
                    HasSubstr("No ranks successfully processed in monitoredBarrier"),
                    Not(HasSubstr("culprits"))));
  EXPECT_THAT(textOfThrown(thrown[1]), HasSubstr(reachedBy(1)));
  EXPECT_THAT(textOfThrown(thrown[2]), HasSubstr(reachedBy(2)));
}

TEST(MonitoredBarrierErrorTest, WithoutATimeoutOfItsOwnItHasTheGroups) {
  NativeWorld world(2);
  world[0].setTimeout(60ms);  // not before: forming may take longer

  EXPECT_THAT(errorAt(world[0]), HasSubstr("Rank 1 failed to pass monitoredBarrier in 60 ms"));
}

TEST(MonitoredBarrierErrorTest, ARankWhoMissesRankZeroWaitsAsLongAsTheGroupDoes) {
  NativeWorld world(2);
  world[1].setTimeout(60ms);  // not before: forming may take longer

  EXPECT_THAT(errorAt(world[1], {.timeout = kLong}),
              AllOf(HasSubstr(reachedBy(1)), HasSubstr("Waiting for rank 0 "),
                    HasSubstr("culprits=[0]"), HasSubstr("[TIMEOUT]")));
}

TEST(MonitoredBarrierErrorTest, ARankThatHasLeftIsNamedAtOnce) {
  NativeWorld world(3);
  world.drop(2);
  const auto thrown =
      world.outcomes([](Backend& rank) { rank.monitoredBarrier({.timeout = kLong}, true); });

  EXPECT_THAT(textOfThrown(thrown[0]),
              AllOf(HasSubstr("[Rank 0]: Rank 2 failed to pass monitoredBarrier in 60000 ms"),
                    HasSubstr("has left the group"), HasSubstr("[PEER_LEFT]")));
  EXPECT_THAT(textOfThrown(thrown[1]), AllOf(HasSubstr(reachedBy(1)), HasSubstr("[PEER_LEFT]")));
}

TEST(MonitoredBarrierErrorTest, WhoCallsSomethingElseIsTold) {
  const auto outcomeOf = [](const std::function<void(Backend&)>& otherCall) {
    NativeWorld world(2);
    const auto thrown = world.outcomes([&](Backend& rank) {
      if (rank.rank() == 0) {
        rank.monitoredBarrier({.timeout = kLong});
      } else {
        otherCall(rank);
      }
    });
    return textOfThrown(thrown[0]);
  };
  EXPECT_THAT(outcomeOf([](Backend& rank) {
                std::vector<float> data(10);
                rank.allreduce({Tensor(data)}, {.asyncOp = false})->wait();
              }),
              AllOf(HasSubstr("[MISMATCH]"), HasSubstr("rank 0 calls monitored_barrier"),
                    HasSubstr("rank 1 calls all_reduce(float32[10], SUM)")));
  EXPECT_THAT(outcomeOf([](Backend& rank) { rank.barrier({.asyncOp = false})->wait(); }),
              AllOf(HasSubstr("[MISMATCH]"), HasSubstr("rank 1 calls barrier")));
}

TEST(MonitoredBarrierErrorTest, ANegativeTimeoutIsRefusedAndAClosedGroupSaysSo) {
  NativeWorld world(1);
  Backend& alone = world[0];
  EXPECT_THROW(alone.monitoredBarrier({.timeout = -5ms}), UsageError);
  alone.monitoredBarrier({.timeout = 0ms});  // alone there is nobody to wait for

  alone.shutdown();
  EXPECT_THAT(textOf<DistBackendError>([&] { alone.monitoredBarrier(); }), HasSubstr("[SHUTDOWN]"));
}

}  // namespace
}  // namespace unisono

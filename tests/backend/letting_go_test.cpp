// What happens to works, and to who waits for them, when the last reference to a group goes.
#include <future>
#include <gmock/gmock.h>

#include "backend/native_world.hpp"
#include "support/blocked_call.hpp"

namespace unisono {
namespace {

using test::BlockedCall;
using test::NativeWorld;
using test::textOf;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr auto kLong = 10min;  // no test waits for it to pass

class LettingGoTest : public ::testing::Test {
 protected:
  NativeWorld world{2};
  std::vector<float> data = std::vector<float>(10, 1);
  std::vector<float> theirs = std::vector<float>(10, 1);
};

TEST_F(LettingGoTest, EndsAnOperationThatSomebodyWaitsFor) {
  const WorkPtr work = world[0].allreduce({Tensor(data)}, {.timeout = kLong});
  BlockedCall waiting([&] { return textOf<DistError>([&] { work->wait(); }); });
  BlockedCall another([&] { return textOf<DistError>([&] { work->wait(); }); });

  world.drop(0);

  EXPECT_THAT(waiting.result(), AllOf(HasSubstr("[PEER_LEFT]"), HasSubstr("rank 0 has let go")));
  EXPECT_THAT(another.result(), HasSubstr("rank 0 has let go"));
}

TEST_F(LettingGoTest, EndsAnOperationThatNobodyWaitsForAndTellsThePeers) {
  const WorkPtr running = world[0].allreduce({Tensor(data)}, {.timeout = kLong});
  const WorkPtr queued = world[0].barrier({.timeout = kLong});

  world.drop(0);

  EXPECT_TRUE(running->isCompleted());
  EXPECT_THROW(running->wait(), DistBackendError);
  EXPECT_THAT(textOf<DistError>([&] { queued->wait(); }), HasSubstr("[SHUTDOWN]"));
  EXPECT_THAT(textOf<DistError>([&] { world[1].barrier({.asyncOp = false})->wait(); }),
              AllOf(HasSubstr("[PEER_LEFT]"), HasSubstr("culprits=[0]")));
}

TEST_F(LettingGoTest, EndsABatchThatSomebodyWaitsFor) {
  CollectiveArgs barrier;
  barrier.type = OpType::BARRIER;
  barrier.timeout = kLong;
  const WorkPtr work = world[0].submitCoalesced({barrier});
  BlockedCall waiting([&] { return textOf<DistError>([&] { work->wait(); }); });

  world.drop(0);

  EXPECT_THAT(waiting.result(), HasSubstr("[PEER_LEFT]"));
}

TEST_F(LettingGoTest, EndsMessagesThatSomebodyWaitsFor) {
  const WorkPtr one = world[0].recv({Tensor(data)}, 1, 1, {.timeout = kLong});
  const WorkPtr two = world[0].recv({Tensor(theirs)}, 1, 2, {.timeout = kLong});
  BlockedCall first([&] { return textOf<DistError>([&] { one->wait(); }); });
  BlockedCall second([&] { return textOf<DistError>([&] { two->wait(); }); });

  world.drop(0);

  EXPECT_THAT(first.result(), HasSubstr("[SHUTDOWN]"));
  EXPECT_THAT(second.result(), HasSubstr("[SHUTDOWN]"));
}

TEST_F(LettingGoTest, LetsWhatPeersHaveJoinedEnd) {
  const WorkPtr there = world[1].allreduce({Tensor(theirs)}, {.timeout = kLong});
  const WorkPtr here = world[0].allreduce({Tensor(data)}, {.timeout = kLong});

  world.drop(0);

  EXPECT_TRUE(here->isCompleted());
  EXPECT_TRUE(there->wait());
  EXPECT_THAT(data, Each(2));
  EXPECT_THAT(theirs, Each(2));
}

TEST_F(LettingGoTest, LeavesAWorkThatHasEndedAsItIs) {
  const WorkPtr here = world[0].allreduce({Tensor(data)});
  const WorkPtr there = world[1].allreduce({Tensor(theirs)});
  EXPECT_TRUE(here->wait());
  EXPECT_TRUE(there->wait());
  world.drop(0);
  world.drop(1);

  EXPECT_TRUE(here->wait());
  EXPECT_EQ(here->result().size(), 1U);
}

/// Lets `group` go when `work` has ended; tells when that is done.
std::future<void> letGoAfter(const WorkPtr& work, std::shared_ptr<NativeBackend> group) {
  auto gone = std::make_shared<std::promise<void>>();
  work->addCallback([gone, group = std::move(group)]() mutable {
    group.reset();
    gone->set_value();
  });
  return gone->get_future();
}

TEST_F(LettingGoTest, MayHappenInACallbackOfACollective) {
  const WorkPtr work = world[0].allreduce({Tensor(data)}, {.timeout = kLong});
  std::future<void> gone = letGoAfter(work, world.take(0));

  EXPECT_TRUE(world[1].allreduce({Tensor(theirs)}, {.asyncOp = false})->wait());

  EXPECT_EQ(gone.wait_for(60s), std::future_status::ready);
  EXPECT_THAT(data, Each(2));
}

TEST_F(LettingGoTest, MayHappenInACallbackOfAMessage) {
  const WorkPtr work = world[0].recv({Tensor(data)}, 1, 0, {.timeout = kLong});
  std::future<void> gone = letGoAfter(work, world.take(0));

  EXPECT_TRUE(world[1].send({Tensor(theirs)}, 0, 0, {.asyncOp = false})->wait());

  EXPECT_EQ(gone.wait_for(60s), std::future_status::ready);
}

TEST_F(LettingGoTest, MayHappenInACallbackOnAThreadThatWaits) {
  const WorkPtr work = world[0].allreduce({Tensor(data)}, {.timeout = kLong});
  const WorkPtr message = world[0].recv({Tensor(data)}, 1, 0, {.timeout = kLong});
  std::future<void> gone = letGoAfter(work, world.take(0));
  BlockedCall waiting([&] { return work->wait(); });
  BlockedCall other([&] { return textOf<DistError>([&] { message->wait(); }); });

  EXPECT_TRUE(world[1].allreduce({Tensor(theirs)}, {.asyncOp = false})->wait());

  EXPECT_TRUE(waiting.result());
  EXPECT_EQ(gone.wait_for(60s), std::future_status::ready);
  EXPECT_THAT(other.result(), HasSubstr("[SHUTDOWN]"));
}

}  // namespace
}  // namespace unisono

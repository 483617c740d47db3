#include "unisono/group/coalescing.hpp"

#include <gmock/gmock.h>

#include "unisono/base/error.hpp"
#include "unisono/group/process_group.hpp"

#include "group/backend_kinds.hpp"
#include "store/expect.hpp"
#include "support/blocked_call.hpp"
#include "work/sample_calls.hpp"

namespace unisono {
namespace {

using namespace std::chrono_literals;
using test::BlockedCall;
using test::OpenBackend;
using test::TensorMaker;
using test::textOf;
using ::testing::HasSubstr;

const BackendParams kParams = {.rank = 1, .size = 3};

class CoalescingScopeTest : public ::testing::Test {
 protected:
  TensorMaker tensor_;
  std::shared_ptr<OpenBackend> open_ = std::make_shared<OpenBackend>(kParams);
  ProcessGroup group_{nullptr, 1, 3, "world"};
  void SetUp() override { group_.setBackend(DeviceType::CPU, open_); }
};

TEST_F(CoalescingScopeTest, StartsEverythingAtItsEndAsOneOperation) {
  CoalescingScope scope = group_.startCoalescing();
  const WorkPtr send = group_.send(tensor_({4}), 2);
  const WorkPtr recv = group_.recv(tensor_({4}), 0);
  EXPECT_TRUE(open_->batches.empty());

  const WorkPtr batch = scope.end();

  ASSERT_EQ(open_->batches.size(), 1U);
  EXPECT_EQ(open_->batches[0].size(), 2U);
  EXPECT_EQ(open_->batches[0][1].seq, 1U);
  EXPECT_EQ(group_.sequenceNumber(), 1U);
  EXPECT_FALSE(send->isCompleted());
  open_->works[0]->finish();
  EXPECT_TRUE(send->wait());
  EXPECT_TRUE(recv->wait());
  EXPECT_TRUE(batch->wait());
}

TEST_F(CoalescingScopeTest, FailsAllOfItsWorksWhenTheBatchFails) {
  CoalescingScope scope = group_.startCoalescing();
  const WorkPtr send = group_.send(tensor_({4}), 2);
  const WorkPtr batch = scope.end();
  BlockedCall waiting([&] { return test::reasonOf<DistBackendError>([&] { send->wait(); }); });
  open_->works[0]->finish(test::peerDied());
  EXPECT_EQ(waiting.result(), Reason::PEER_DEAD);
  EXPECT_THROW(batch->wait(), DistBackendError);
}

TEST_F(CoalescingScopeTest, RefusesToWaitForWhatIsNotStarted) {
  CoalescingScope scope = group_.startCoalescing();
  const WorkPtr send = group_.send(tensor_({4}), 2);
  EXPECT_THAT(textOf<UsageError>([&] { send->wait(1s); }),
              HasSubstr("a wait inside a coalescing scope would never end"));
}

TEST_F(CoalescingScopeTest, ChecksCallsAtOnce) {
  CoalescingScope scope = group_.startCoalescing();
  EXPECT_THROW(group_.send(tensor_({4}), 7), UsageError);
  EXPECT_TRUE(scope.end()->wait());
  EXPECT_EQ(group_.sequenceNumber(), 0U);
}

TEST_F(CoalescingScopeTest, CollectsOnlyForItsDevice) {
  const auto cuda = std::make_shared<OpenBackend>(kParams);
  group_.setBackend(DeviceType::CUDA, cuda);
  CoalescingScope scope = group_.startCoalescing(DeviceType::CUDA);
  group_.allreduce(tensor_({4}));
  group_.allreduce(tensor_({4}, DType::FLOAT32, {DeviceType::CUDA, 0}));

  EXPECT_EQ(open_->calls.size(), 1U);
  EXPECT_TRUE(cuda->calls.empty());
  scope.end();
  EXPECT_EQ(cuda->batches.size(), 1U);
}

TEST_F(CoalescingScopeTest, LeftWithoutAnEndStartsNothing) {
  WorkPtr send;
  {
    const CoalescingScope scope = group_.startCoalescing();
    send = group_.send(tensor_({4}), 2);
  }
  EXPECT_TRUE(open_->batches.empty());
  EXPECT_THROW(send->wait(), UsageError);
  EXPECT_FALSE(group_.send(tensor_({4}), 2)->isCompleted());
}

TEST_F(CoalescingScopeTest, IsOneAtATimeAndEndsOnce) {
  CoalescingScope scope = group_.startCoalescing();
  EXPECT_THAT(textOf<UsageError>([&] { group_.startCoalescing(); }), HasSubstr("is open"));
  scope.end();
  EXPECT_THROW(scope.end(), UsageError);
  EXPECT_NO_THROW(group_.startCoalescing().end());
}

TEST_F(CoalescingScopeTest, NeedsABackendForItsDevice) {
  EXPECT_THROW(group_.startCoalescing(DeviceType::XPU), UsageError);
}

}  // namespace
}  // namespace unisono

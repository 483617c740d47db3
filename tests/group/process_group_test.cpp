#include "unisono/group/process_group.hpp"

#include <gmock/gmock.h>

#include "unisono/backend/fake_backend.hpp"
#include "unisono/base/error.hpp"

#include "group/backend_kinds.hpp"
#include "store/expect.hpp"
#include "support/blocked_call.hpp"
#include "support/support.hpp"
#include "work/sample_calls.hpp"

namespace unisono {
namespace {

using namespace std::chrono_literals;
using test::BlockedCall;
using test::FailingBackend;
using test::OpenBackend;
using test::TensorMaker;
using test::textOf;
using test::ThreadBackend;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Device kCuda{DeviceType::CUDA, 0};
const BackendParams kParams = {.rank = 1, .size = 3};

/// Rank 1 of 3, with a backend whose operations do not end.
class ProcessGroupTest : public ::testing::Test {
 protected:
  TensorMaker tensor_;
  std::shared_ptr<OpenBackend> open_ = std::make_shared<OpenBackend>(kParams);
  ProcessGroup group_{nullptr, 1, 3, "world"};

  void SetUp() override { group_.setBackend(DeviceType::CPU, open_); }
};

TEST_F(ProcessGroupTest, TheDeviceOfTheTensorsPicksTheBackend) {
  const auto cuda = std::make_shared<OpenBackend>(kParams);
  group_.setBackend(DeviceType::CUDA, cuda);

  group_.allreduce(tensor_({4}));
  group_.gather({}, tensor_({4}, DType::FLOAT32, kCuda));

  ASSERT_EQ(open_->calls.size(), 1U);
  EXPECT_EQ(open_->calls[0].type, OpType::ALLREDUCE);
  ASSERT_EQ(cuda->calls.size(), 1U);
  EXPECT_EQ(cuda->calls[0].type, OpType::GATHER);
  EXPECT_EQ(group_.backend(DeviceType::CUDA), cuda);
  EXPECT_EQ(group_.defaultBackend(), open_);
  EXPECT_THAT(group_.deviceTypes(), ElementsAre(DeviceType::CPU, DeviceType::CUDA));
}

TEST_F(ProcessGroupTest, ADeviceWithoutABackendIsRefused) {
  EXPECT_THAT(textOf<UsageError>([&] { group_.allreduce(tensor_({4}, DType::FLOAT32, kCuda)); }),
              AllOf(HasSubstr("No backend type associated with device type cuda"),
                    HasSubstr("cpu:open"), HasSubstr("group=world")));
  EXPECT_THROW(group_.backend(DeviceType::XPU), UsageError);
  EXPECT_FALSE(group_.hasBackend(DeviceType::XPU));
  EXPECT_THROW(ProcessGroup(nullptr, 0, 1).defaultBackend(), UsageError);
}

TEST_F(ProcessGroupTest, ABackendMustFit) {
  EXPECT_THAT(textOf<UsageError>([&] { group_.setBackend(DeviceType::CPU, open_); }),
              HasSubstr("already has a backend for cpu"));
  EXPECT_THROW(group_.setBackend(DeviceType::CUDA, nullptr), UsageError);
  EXPECT_THROW(group_.setBackend(DeviceType::XPU, open_), UsageError);
  EXPECT_THROW(group_.setBackend(DeviceType::CUDA, std::make_shared<OpenBackend>(BackendParams{})),
               UsageError);
  EXPECT_THROW(ProcessGroup(nullptr, 3, 3), UsageError);
}

TEST_F(ProcessGroupTest, NumbersOperationsFromOne) {
  EXPECT_EQ(group_.sequenceNumber(), 0U);
  EXPECT_EQ(group_.allreduce(tensor_({4}))->sequenceNumber(), 1U);
  EXPECT_EQ(group_.send(tensor_({4}), 0)->sequenceNumber(), 2U);
  EXPECT_EQ(group_.barrier()->sequenceNumber(), 3U);
  group_.monitoredBarrier();
  EXPECT_EQ(group_.sequenceNumber(), 4U);
  EXPECT_EQ(open_->barriers, 1);
}

TEST_F(ProcessGroupTest, ARefusedCallTakesNoNumber) {
  EXPECT_THROW(group_.allreduce({tensor_({4}), tensor_({5})}), UsageError);
  EXPECT_THROW(group_.broadcast(tensor_({4}), {.rootRank = 9}), UsageError);
  EXPECT_THROW(group_.allreduce(tensor_({4}, DType::FLOAT32, kCuda)), UsageError);
  const HookHandle refusing =
      group_.addPreHook([](const CollectiveCall&) { throw std::runtime_error("not today"); });
  EXPECT_THROW(group_.barrier(), std::runtime_error);

  EXPECT_EQ(group_.sequenceNumber(), 0U);
  EXPECT_TRUE(open_->calls.empty());
}

TEST_F(ProcessGroupTest, ACallWithoutTensorsHasNoDevice) {
  ProcessGroup cudaOnly(nullptr, 1, 3);
  cudaOnly.setBackend(DeviceType::CUDA, open_);
  EXPECT_THAT(textOf<UsageError>([&] { cudaOnly.allreduce({}); }),
              HasSubstr("There were no tensor arguments to this function"));
  EXPECT_NO_THROW(cudaOnly.barrier());
  EXPECT_THROW(cudaOnly.barrier({.device = Device{DeviceType::XPU}}), UsageError);
}

TEST_F(ProcessGroupTest, HooksSeeAnOperationFromItsStartToItsEnd) {
  std::vector<std::string> seen;
  const HookHandle pre = group_.addPreHook([&](const CollectiveCall& call) {
    seen.push_back("pre " + std::to_string(call.seq) + " " + call.args.describe());
  });
  const HookHandle post = group_.addPostHook([&](const StartedCall& call) {
    seen.push_back("post " + std::to_string(call.work->sequenceNumber()));
  });
  const HookHandle completion = group_.addCompletionHook([&](const WorkInfo& info) {
    seen.push_back("end " + std::to_string(info.seq) + " " + std::string(name(info.opType)));
    EXPECT_EQ(info.result, WorkResult::SUCCESS);
  });
  EXPECT_TRUE(group_.hasHooks());

  group_.allreduce(tensor_({4}));
  EXPECT_THAT(seen, ElementsAre("pre 1 all_reduce(float32[4], SUM)", "post 1"));
  open_->works[0]->finish();
  EXPECT_EQ(seen.back(), "end 1 ALLREDUCE");
}

TEST_F(ProcessGroupTest, ARemovedHookIsNotCalled) {
  int calls = 0;
  const auto count = [&](const CollectiveCall&) { ++calls; };
  HookHandle first = group_.addPreHook(count);
  {
    const HookHandle second = group_.addPreHook(count);
    group_.barrier();
  }
  group_.barrier();
  first.remove();
  EXPECT_FALSE(group_.hasHooks());
  group_.barrier();
  EXPECT_EQ(calls, 3);

  group_.addPreHook(count).release();
  group_.barrier();
  EXPECT_EQ(calls, 4);
}

TEST_F(ProcessGroupTest, AHandleMayOutliveItsGroup) {
  auto group = std::make_unique<ProcessGroup>(nullptr, 0, 1);
  HookHandle handle = group->addPreHook([](const CollectiveCall&) {});
  group.reset();
  EXPECT_NO_THROW(handle.remove());
}

TEST_F(ProcessGroupTest, OnlyAPreHookCanRefuse) {
  const test::LogCapture log;
  const HookHandle post =
      group_.addPostHook([](const StartedCall&) { throw std::runtime_error("post broke"); });
  const HookHandle completion =
      group_.addCompletionHook([](const WorkInfo&) { throw std::runtime_error("end broke"); });

  EXPECT_NO_THROW(group_.barrier());
  open_->works[0]->finish();

  EXPECT_THAT(log.lines(), Contains(HasSubstr("post broke")));
  EXPECT_THAT(log.lines(), Contains(HasSubstr("end broke")));
}

TEST_F(ProcessGroupTest, AHookMayCallTheGroup) {
  bool inside = false;
  const HookHandle hook = group_.addPreHook([&](const CollectiveCall&) {
    if (!std::exchange(inside, true)) {
      group_.barrier();
    }
  });
  group_.allreduce(tensor_({4}));
  ASSERT_EQ(open_->calls.size(), 2U);
  EXPECT_EQ(open_->calls[0].type, OpType::BARRIER);
}

TEST_F(ProcessGroupTest, CompletionHooksLearnOfFailures) {
  std::vector<WorkResult> ends;
  const auto observe = [&](ProcessGroup& group) {
    return group.addCompletionHook([&](const WorkInfo& info) { ends.push_back(info.result); });
  };
  for (const auto when : {FailingBackend::When::AT_ONCE, FailingBackend::When::LATER}) {
    ProcessGroup group(nullptr, 1, 3);
    group.setBackend(DeviceType::CPU, std::make_shared<FailingBackend>(kParams, when));
    const HookHandle hook = observe(group);
    EXPECT_THROW(group.barrier()->wait(), DistBackendError);
  }
  EXPECT_THAT(ends, ElementsAre(WorkResult::COMM_ERROR, WorkResult::COMM_ERROR));
}

TEST_F(ProcessGroupTest, WaitsForABackendWithThreads) {
  std::atomic<int> ends{0};
  auto group = std::make_unique<ProcessGroup>(nullptr, 1, 3);
  group->setBackend(DeviceType::CPU, std::make_shared<ThreadBackend>(kParams));
  const HookHandle hook = group->addCompletionHook([&](const WorkInfo& info) {
    EXPECT_GE(info.activeDuration.count(), 0);
    ++ends;
  });
  for (int i = 0; i < 20; ++i) {
    const WorkPtr work = group->allreduce(tensor_({4}));
    EXPECT_TRUE(work->wait(10s));
    EXPECT_EQ(work->result().size(), 1U);
  }
  EXPECT_LE(ends, 20) << "a hook may run after those who waited";
  group.reset();  // ends the threads that run them
  EXPECT_EQ(ends, 20);
}

TEST_F(ProcessGroupTest, AbortFailsWhatIsUnderWay) {
  int aborts = 0;
  const HookHandle hook = group_.addAbortHook([&](std::exception_ptr reason) {
    EXPECT_NE(reason, nullptr);
    EXPECT_FALSE(open_->works[0]->isCompleted()) << "the hook runs first";
    ++aborts;
  });
  const WorkPtr work = group_.allreduce(tensor_({4}));
  BlockedCall waiting([&] { return test::textOf<DistBackendError>([&] { work->wait(); }); });

  group_.abort();
  group_.abort();

  EXPECT_THAT(waiting.result(),
              AllOf(HasSubstr("[ABORTED]"), HasSubstr(str("culprits=[", group_.rank(), "]"))));
  EXPECT_EQ(aborts, 1);
}

TEST_F(ProcessGroupTest, AbortAndShutdownReachEveryBackend) {
  const test::LogCapture log;
  group_.setBackend(DeviceType::CUDA,
                    std::make_shared<FailingBackend>(kParams, FailingBackend::When::LATER));
  const WorkPtr work = group_.barrier();
  EXPECT_NO_THROW(group_.abort(test::peerDied()));
  EXPECT_THROW(work->wait(), DistBackendError);
  EXPECT_THAT(log.lines(), Contains(HasSubstr("cannot even abort")));
  EXPECT_THROW(group_.shutdown(), std::runtime_error);
}

TEST_F(ProcessGroupTest, HasANameADescriptionAndATimeout) {
  EXPECT_EQ(group_.groupName(), "world");
  group_.setGroupName("other");
  group_.setGroupDesc("data parallel");
  EXPECT_EQ(group_.groupName(), "other");
  EXPECT_EQ(group_.groupDesc(), "data parallel");
  EXPECT_THAT(textOf<UsageError>([] { ProcessGroup(nullptr, 0, 1).groupName(); }),
              HasSubstr("ProcessGroup name not set"));
  group_.setTimeout(3s);
  EXPECT_EQ(open_->timeout(), 3s);
  EXPECT_EQ(group_.rank(), 1);
  EXPECT_EQ(group_.size(), 3);
  EXPECT_EQ(group_.store(), nullptr);
}

TEST_F(ProcessGroupTest, ManyThreadsMayCallWithoutHarm) {
  ProcessGroup group(nullptr, 0, 1);
  group.setBackend(DeviceType::CPU, std::make_shared<FakeBackend>(BackendParams{}));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      float value = 0;
      for (int call = 0; call < 200; ++call) {
        const HookHandle hook = group.addPreHook([](const CollectiveCall&) {});
        EXPECT_TRUE(group.allreduce(Tensor(&value, DType::FLOAT32, {1}))->wait());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(group.sequenceNumber(), 800U);
}

}  // namespace
}  // namespace unisono

#include "unisono/work/work.hpp"

#include <gmock/gmock.h>
#include <thread>

#include "store/expect.hpp"
#include "support/blocked_call.hpp"
#include "support/support.hpp"
#include "work/work_kinds.hpp"

namespace unisono {
namespace {

using namespace std::chrono_literals;
using test::BlockedCall;
using test::DrivenWork;
using test::OpenWork;
using test::peerDied;
using test::textOf;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

class WorkTest : public ::testing::Test {
 protected:
  std::vector<float> values_ = std::vector<float>(4);
  Tensor tensor_{values_};
  std::shared_ptr<OpenWork> work_ = std::make_shared<OpenWork>(OpType::ALLREDUCE, 42);
};

TEST_F(WorkTest, IsUnderWayUntilItIsFinished) {
  EXPECT_FALSE(work_->isCompleted());
  EXPECT_TRUE(work_->isSuccess());
  EXPECT_EQ(work_->exception(), nullptr);

  EXPECT_TRUE(work_->finish());

  EXPECT_TRUE(work_->isCompleted());
  EXPECT_TRUE(work_->isSuccess());
  EXPECT_TRUE(work_->wait());
  EXPECT_EQ(work_->sequenceNumber(), 42U);
  EXPECT_EQ(work_->opType(), OpType::ALLREDUCE);
}

TEST_F(WorkTest, ThrowsWhatItFailedWithAtEveryWait) {
  work_->finish(peerDied());

  EXPECT_FALSE(work_->isSuccess());
  EXPECT_NE(work_->exception(), nullptr);
  EXPECT_THROW(work_->wait(), DistBackendError);
  EXPECT_THROW(work_->wait(1ms), DistBackendError);
}

TEST_F(WorkTest, TheFirstEndCounts) {
  EXPECT_TRUE(work_->finish());
  EXPECT_FALSE(work_->finish(peerDied()));

  EXPECT_TRUE(work_->wait());
}

TEST_F(WorkTest, WakesEveryThreadThatWaits) {
  BlockedCall first([&] { return work_->wait(); });
  BlockedCall second([&] { return work_->wait(1h); });

  work_->finish();

  EXPECT_TRUE(first.result());
  EXPECT_TRUE(second.result());
}

TEST_F(WorkTest, AWaitThatExpiresDoesNotFailTheWork) {
  EXPECT_THAT(textOf<DistTimeoutError>([&] { work_->wait(5ms); }),
              AllOf(HasSubstr("Operation timed out!"), HasSubstr("[TIMEOUT]"),
                    HasSubstr("op=all_reduce"), HasSubstr("seq=42")));

  EXPECT_TRUE(work_->isSuccess());
  EXPECT_FALSE(work_->isCompleted());
  work_->finish();
  EXPECT_TRUE(work_->wait(5ms));
}

TEST_F(WorkTest, AWaitIsNeverShorterThanItsTimeout) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(work_->wait(20ms), DistTimeoutError);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 20ms);
}

TEST_F(WorkTest, ANegativeTimeoutIsRefused) {
  EXPECT_THAT(textOf<UsageError>([&] { work_->wait(-1ms); }), HasSubstr("timeout -1ms"));
}

TEST_F(WorkTest, HasItsOutputsWhenItHasEnded) {
  EXPECT_THAT(textOf<UsageError>([&] { work_->result(); }),
              HasSubstr("Work needs to be completed before calling result()"));

  work_->finish(nullptr, tensor_);

  ASSERT_EQ(work_->result().size(), 1U);
  EXPECT_EQ(work_->result()[0].data(), values_.data());
}

TEST_F(WorkTest, OnlyAReceiveHasASource) {
  EXPECT_THAT(textOf<UsageError>([&] { work_->sourceRank(); }),
              HasSubstr("sourceRank() may only be called on work objects that correspond to a recv "
                        "or recv-from-any call."));
  OpenWork received(OpType::RECVANYSOURCE);
  EXPECT_EQ(received.sourceRank(), -1);
  received.setSourceRank(2);
  EXPECT_EQ(received.sourceRank(), 2);
}

TEST_F(WorkTest, AnAbortedWaitEndsWithFalseAndTheWorkGoesOn) {
  BlockedCall waiting([&] { return work_->wait(); });
  work_->abort();
  EXPECT_FALSE(waiting.result());

  work_->abort();
  EXPECT_FALSE(work_->wait());

  work_->finish();
  EXPECT_TRUE(work_->wait());
}

TEST_F(WorkTest, OneAbortEndsOneWait) {
  BlockedCall first([&] { return work_->wait(); });
  BlockedCall second([&] { return work_->wait(); });
  work_->abort();
  EXPECT_TRUE(first.staysBlocked(20ms) || second.staysBlocked(20ms));
  work_->finish();
  EXPECT_NE(first.result(), second.result());
}

TEST_F(WorkTest, MostWorksCannotBeAborted) {
  EXPECT_THAT(textOf<NotSupportedError>([] { Work().abort(); }),
              HasSubstr("Work::abort not implemented."));
}

TEST_F(WorkTest, KnowsItsDurationWhenItsBackendMeasuresIt) {
  work_->markStarted();
  work_->finish();
  EXPECT_GE(work_->duration().count(), 0);
  EXPECT_EQ(work_->info().seq, 42U);
  EXPECT_EQ(work_->info().result, WorkResult::SUCCESS);
  EXPECT_GE(work_->info().timeFinished, work_->info().timeStarted);

  OpenWork unmeasured;
  unmeasured.finish();
  EXPECT_THAT(textOf<NotSupportedError>([&] { unmeasured.duration(); }),
              HasSubstr("This Backend doesn't support getDuration."));
}

TEST_F(WorkTest, TellsATimeoutFromOtherFailures) {
  work_->finish(std::make_exception_ptr(DistTimeoutError({.reason = Reason::TIMEOUT})));
  EXPECT_EQ(work_->info().result, WorkResult::TIMEOUT);
  OpenWork other;
  other.finish(peerDied());
  EXPECT_EQ(other.info().result, WorkResult::COMM_ERROR);
}

TEST_F(WorkTest, CallsBackOnTheThreadThatEndsItWithoutALock) {
  std::thread::id where;
  bool completed = false;
  work_->addCallback([&] {
    where = std::this_thread::get_id();
    completed = work_->isCompleted() && work_->wait();
  });
  std::thread other([&] { work_->finish(); });
  const std::thread::id expected = other.get_id();
  other.join();

  EXPECT_EQ(where, expected);
  EXPECT_TRUE(completed);
}

TEST_F(WorkTest, CallsBackAtOnceWhenItHasEnded) {
  work_->finish();
  int calls = 0;
  work_->addCallback([&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST_F(WorkTest, ACallbackThatThrowsIsLoggedAndTheOthersRun) {
  const test::LogCapture log;
  int calls = 0;
  work_->addCallback([] { throw std::runtime_error("my callback broke"); });
  work_->addCallback([] { throw 7; });
  work_->addCallback([&] { ++calls; });

  EXPECT_TRUE(work_->finish());

  EXPECT_EQ(calls, 1);
  EXPECT_THAT(log.lines(), Contains(HasSubstr("my callback broke")));
}

TEST_F(WorkTest, ADeferredEndLeavesTheCallbacksToTheCaller) {
  int calls = 0;
  work_->addCallback([&] { ++calls; });

  Work::Callbacks left = work_->finishDeferred();

  EXPECT_TRUE(work_->wait());
  EXPECT_EQ(calls, 0);
  Work::run(std::move(left));
  EXPECT_EQ(calls, 1);
}

TEST(ReceivedWorkTest, IsOverAndKnowsWhereItCameFrom) {
  for (const int source : {0, 5, 5000}) {
    const WorkPtr work = receivedWork(source);
    EXPECT_TRUE(work->isCompleted());
    EXPECT_TRUE(work->wait());
    EXPECT_EQ(work->sourceRank(), source);
  }
  EXPECT_EQ(receivedWork(5), receivedWork(5));
}

TEST(DrivenWorkTest, IsDrivenByWhoeverWaits) {
  const auto work = std::make_shared<DrivenWork>([](DrivenWork& self) { self.finish(); });

  EXPECT_FALSE(work->isCompleted());
  EXPECT_TRUE(work->wait());
  EXPECT_EQ(work->helped, 1);
  EXPECT_TRUE(work->wait());
  EXPECT_EQ(work->helped, 1);
}

TEST(DrivenWorkTest, IsDrivenThroughItsFutureToo) {
  const auto work =
      std::make_shared<DrivenWork>([](DrivenWork& self) { self.finish(nullptr, {}); });
  const Future next = work->getFuture().then([](const Future& done) { return done.value(); });

  next.wait();

  EXPECT_TRUE(work->isCompleted());
}

TEST(DrivenWorkTest, AWokenWaiterHelpsAgain) {
  std::atomic<bool> mine{false};
  const auto work = std::make_shared<DrivenWork>([&](DrivenWork& self) {
    if (mine) {
      self.finish();
    }
  });
  BlockedCall waiting([&] { return work->wait(); });

  mine = true;
  work->wakeWaiters();

  EXPECT_TRUE(waiting.result());
}

TEST(DrivenWorkTest, AWakeBetweenHelpingAndSleepingIsNotLost) {
  // The helper wakes itself, as a driver that gives up just then would.
  const auto work = std::make_shared<DrivenWork>([](DrivenWork& self) {
    if (self.helped < 100) {
      self.wakeWaiters();
    } else {
      self.finish();
    }
  });
  const auto start = std::chrono::steady_clock::now();

  EXPECT_TRUE(work->wait());

  EXPECT_LT(std::chrono::steady_clock::now() - start, 1s) << "it slept through its wakes";
}

TEST(DrivenWorkTest, WhatHelpingThrowsEndsTheWaitOnly) {
  const auto work =
      std::make_shared<DrivenWork>([](DrivenWork&) { throw UsageError({.what = "not now"}); });

  EXPECT_THROW(work->wait(), UsageError);
  EXPECT_FALSE(work->isCompleted());
  work->finish();
  EXPECT_TRUE(work->wait());
}

TEST(FinishedWorkTest, IsOneForAllAndCountsNoReferences) {
  const WorkPtr one = finishedWork();
  const WorkPtr other = finishedWork();

  EXPECT_EQ(one.get(), other.get());
  EXPECT_EQ(one.use_count(), 0);
  EXPECT_TRUE(one->isCompleted());
  EXPECT_TRUE(one->wait(1ms));
  EXPECT_TRUE(one->getFuture().done());
}

TEST(FailedWorkTest, ThrowsItsErrorWhenWaitedFor) {
  const WorkPtr work = failedWork(OpType::BARRIER, 3, peerDied());
  EXPECT_THROW(work->wait(), DistBackendError);
  EXPECT_EQ(work->sequenceNumber(), 3U);
}

TEST(WorkRaceTest, OneOfManyEndsWinsAndAllWaitersSeeIt) {
  for (int round = 0; round < 50; ++round) {
    const auto work = std::make_shared<OpenWork>();
    std::atomic<int> calls{0};
    std::atomic<int> ends{0};
    work->addCallback([&] { ++calls; });
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] { ends += work->finish() ? 1 : 0; });
      threads.emplace_back([&] { EXPECT_TRUE(work->wait()); });
      threads.emplace_back([&] { work->getFuture().addCallback([&](const Future&) { ++calls; }); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(ends, 1);
    EXPECT_EQ(calls, 3);
  }
}

TEST(WorkForkTest, WaitingInAForkedChildIsRefused) {
  OpenWork work;
  EXPECT_EQ(test::runInChild([&] {
              return test::reasonOf<UsageError>([&] { work.wait(1s); }) == Reason::FORKED;
            }),
            0);
}

}  // namespace
}  // namespace unisono

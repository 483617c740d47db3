#include "unisono/work/future.hpp"

#include <gmock/gmock.h>
#include <thread>

#include "unisono/base/error.hpp"

#include "store/expect.hpp"
#include "support/blocked_call.hpp"
#include "support/support.hpp"
#include "work/work_kinds.hpp"

namespace unisono {
namespace {

using namespace std::chrono_literals;
using test::BlockedCall;
using test::OpenWork;
using test::peerDied;
using test::textOf;
using ::testing::Contains;
using ::testing::HasSubstr;

class FutureTest : public ::testing::Test {
 protected:
  std::vector<float> values_ = std::vector<float>(4);
  Tensor tensor_{values_};
};

TEST_F(FutureTest, HasAValueOnceItIsSet) {
  Future future;
  const Future copy = future;
  EXPECT_FALSE(copy.done());
  EXPECT_THAT(textOf<UsageError>([&] { copy.value(); }), HasSubstr("before it is done"));

  future.setValue(tensor_);

  EXPECT_TRUE(copy.done());
  copy.wait();
  EXPECT_EQ(copy.value()[0].data(), values_.data());
  EXPECT_EQ(copy.exception(), nullptr);
}

TEST_F(FutureTest, ThrowsTheErrorItWasGiven) {
  const Future future = Future::failed(peerDied());
  EXPECT_TRUE(future.done());
  EXPECT_THROW(future.wait(), DistBackendError);
  EXPECT_THROW(future.value(), DistBackendError);
}

TEST_F(FutureTest, AnErrorMustBeOne) {
  EXPECT_THROW(Future().setError(nullptr), UsageError);
}

TEST_F(FutureTest, TheFirstResultCounts) {
  Future future = Future::ready(tensor_);
  future.setError(peerDied());
  EXPECT_EQ(future.value().size(), 1U);
}

TEST_F(FutureTest, AWaitThatExpiresChangesNothing) {
  Future future;
  EXPECT_THAT(textOf<DistTimeoutError>([&] { future.wait(1ms); }),
              HasSubstr("Operation timed out!"));
  BlockedCall waiting([&] {
    future.wait();
    return future.value().size();
  });
  future.setValue(tensor_);
  EXPECT_EQ(waiting.result(), 1U);
}

TEST_F(FutureTest, OfAWorkHasItsOutputsOrItsError) {
  const auto good = std::make_shared<OpenWork>();
  const auto bad = std::make_shared<OpenWork>();
  const Future value = good->getFuture();
  const Future error = bad->getFuture();

  good->finish(nullptr, tensor_);
  bad->finish(peerDied());

  EXPECT_EQ(value.value()[0].data(), values_.data());
  EXPECT_THROW(error.wait(), DistBackendError);
}

TEST_F(FutureTest, OutlivesItsWork) {
  auto work = std::make_shared<OpenWork>();
  const Future future = work->getFuture();
  work->finish(nullptr, tensor_);
  work.reset();
  EXPECT_EQ(future.value().size(), 1U);
}

TEST_F(FutureTest, CallsBackOnceWithItself) {
  Future future;
  int before = 0;
  int after = 0;
  future.addCallback([&](const Future& done) { before += static_cast<int>(done.value().size()); });
  future.setValue({tensor_, tensor_});
  future.addCallback([&](const Future& done) { after += static_cast<int>(done.value().size()); });

  EXPECT_EQ(before, 2);
  EXPECT_EQ(after, 2);
}

TEST_F(FutureTest, ACallbackThatThrowsIsLogged) {
  const test::LogCapture log;
  Future::ready(tensor_).addCallback([](const Future&) { throw std::runtime_error("no luck"); });
  EXPECT_THAT(log.lines(), Contains(HasSubstr("no luck")));
}

TEST_F(FutureTest, ThenGivesWhatTheNextStepReturns) {
  Future first;
  const Future last = first
                          .then([&](const Future& done) {
                            TensorList two = done.value();
                            two.append(tensor_);
                            return two;
                          })
                          .then([](const Future& done) {
                            EXPECT_EQ(done.value().size(), 2U);
                            return TensorList();
                          });
  EXPECT_FALSE(last.done());

  first.setValue(tensor_);

  EXPECT_TRUE(last.done());
  EXPECT_TRUE(last.value().empty());
}

TEST_F(FutureTest, ThenFailsWithWhatTheStepThrows) {
  Future first;
  const Future thrown =
      first.then([](const Future&) -> TensorList { throw UsageError({.what = "mine"}); });
  first.setValue(tensor_);
  EXPECT_THROW(thrown.wait(), UsageError);
}

TEST_F(FutureTest, ThenPassesAnErrorOnUnlessTheStepHandlesIt) {
  Future first;
  const Future passed = first.then([](const Future& done) { return done.value(); });
  const Future handled = first.then(
      [&](const Future& done) { return done.exception() ? TensorList(tensor_) : TensorList(); });

  first.setError(peerDied());

  EXPECT_THROW(passed.wait(), DistBackendError);
  EXPECT_EQ(handled.value().size(), 1U);
}

TEST_F(FutureTest, ThenAfterTheEndRunsAtOnce) {
  const auto work = std::make_shared<OpenWork>();
  work->finish(nullptr, tensor_);
  const auto bad = std::make_shared<OpenWork>();
  bad->finish(peerDied());

  const Future value = work->then([](const Future& done) { return done.value(); });
  const Future error = bad->then([](const Future& done) { return done.value(); });

  EXPECT_TRUE(value.done());
  EXPECT_EQ(value.value()[0].data(), values_.data());
  EXPECT_TRUE(error.done());
  EXPECT_THROW(error.wait(), DistBackendError);
}

TEST_F(FutureTest, StepsRunInTheOrderInWhichTheyWereAdded) {
  const auto work = std::make_shared<OpenWork>();
  std::vector<int> order;
  const auto step = [&](int number) {
    return [&order, number](const Future& done) {
      order.push_back(number);
      return done.value();
    };
  };
  const Future first = work->getFuture().then(step(1));
  const Future second = first.then(step(2));  // in the end of the first, before the others
  const Future third = work->getFuture().then(step(3));
  work->addCallback([&] { order.push_back(4); });

  work->finish(nullptr, tensor_);

  EXPECT_THAT(order, ::testing::ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(second.done() && third.done());
}

TEST_F(FutureTest, AStepThatThrowsFailsWhatFollowsItOnly) {
  const auto work = std::make_shared<OpenWork>();
  const Future broken = work->getFuture().then(
      [](const Future&) -> TensorList { throw UsageError({.what = "mine"}); });
  const Future after = broken.then([](const Future& done) { return done.value(); });
  const Future beside = work->getFuture().then([](const Future& done) { return done.value(); });

  work->finish(nullptr, tensor_);

  EXPECT_TRUE(work->isSuccess());
  EXPECT_THROW(after.wait(), UsageError);
  EXPECT_EQ(beside.value().size(), 1U);
}

TEST_F(FutureTest, ACallbackMayWaitForAnotherOperation) {
  Future first;
  Future second;
  const Future both = first.then([&](const Future&) {
    second.wait();
    return second.value();
  });
  std::thread completing([&] { first.setValue({}); });
  second.setValue(tensor_);

  both.wait();

  EXPECT_EQ(both.value().size(), 1U);
  completing.join();
}

TEST_F(FutureTest, LetsGoOfItsCallbacksWhenTheyHaveRun) {
  const auto owner = std::make_shared<int>(0);
  Future future;
  future.addCallback([owner](const Future&) {});
  EXPECT_EQ(owner.use_count(), 2);
  future.setValue({});
  EXPECT_EQ(owner.use_count(), 1);
}

}  // namespace
}  // namespace unisono

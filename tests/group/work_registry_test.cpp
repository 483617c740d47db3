#include "unisono/group/work_registry.hpp"

#include <gmock/gmock.h>
#include <stdexcept>
#include <thread>
#include <vector>

#include "store/expect.hpp"
#include "support/blocked_call.hpp"
#include "support/effort.hpp"
#include "work/work_kinds.hpp"

namespace unisono {
namespace {

using test::BlockedCall;
using test::OpenWork;
using test::textOf;
using ::testing::HasSubstr;

/// A row of four that owns its memory.
Tensor ownedRow() {
  const auto memory = std::make_shared<std::vector<float>>(4);
  return {memory->data(), DType::FLOAT32, Dims{4}, Device{}, memory};
}

std::shared_ptr<OpenWork> openWork() {
  return std::make_shared<OpenWork>(OpType::ALLREDUCE);
}

TEST(WorkRegistryTest, ATensorIsWaitedForByAnyViewOfItsMemory) {
  const Tensor tensor = ownedRow();
  const auto work = openWork();
  registerWork(tensor, work);
  EXPECT_EQ(workRegistrySize(), 1U);

  BlockedCall waiting([&] { return waitTensor(slice(tensor, 1, 2)).numel(); });
  EXPECT_FALSE(waiting.finished());
  work->finish();

  EXPECT_EQ(waiting.result(), 2);
  EXPECT_EQ(workRegistrySize(), 0U);
}

TEST(WorkRegistryTest, ATensorThatNothingWritesToIsNotWaitedFor) {
  const Tensor tensor = ownedRow();
  EXPECT_EQ(waitTensor(tensor).data(), tensor.data());

  registerWork(tensor, finishedWork());
  waitTensor(tensor);
  EXPECT_EQ(waitTensor(tensor).data(), tensor.data()) << "once is enough, twice no mistake";

  std::vector<float> values(2);
  EXPECT_EQ(waitTensor(Tensor(values)).data(), values.data());
  EXPECT_FALSE(waitTensor(Tensor()).defined());
}

TEST(WorkRegistryTest, AllWorksOfAMemoryAreWaitedFor) {
  const Tensor tensor = ownedRow();
  const auto first = openWork();
  const auto second = openWork();
  registerWork(tensor, first);
  registerWork(slice(tensor, 0, 2), second);
  EXPECT_EQ(workRegistrySize(), 2U);

  second->finish();
  BlockedCall waiting([&] { return waitTensor(tensor).numel(); });
  EXPECT_FALSE(waiting.finished());
  first->finish();

  EXPECT_EQ(waiting.result(), 4);
  EXPECT_EQ(workRegistrySize(), 0U);
}

TEST(WorkRegistryTest, TheSameWorkCountsOnceForAMemoryAndOnceForEach) {
  const Tensor tensor = ownedRow();
  const Tensor other = ownedRow();
  const auto work = openWork();
  registerWork(tensor, work);
  registerWork(tensor, work);
  EXPECT_EQ(workRegistrySize(), 1U);
  registerWork(other, work);
  EXPECT_EQ(workRegistrySize(), 2U);

  work->finish();
  EXPECT_EQ(workRegistrySize(), 2U) << "nobody has waited";
  registerWork(tensor, work);
  EXPECT_EQ(workRegistrySize(), 2U) << "also when it has ended";
  waitTensor(other);
  EXPECT_EQ(workRegistrySize(), 1U);
  waitTensor(tensor);
  EXPECT_EQ(workRegistrySize(), 0U);
}

TEST(WorkRegistryTest, ResultsThatAreDroppedLeaveNothingBehind) {
  std::weak_ptr<const void> owner;
  for (int i = 0; i < test::effort(100'000, 10'000); ++i) {
    const Tensor tensor = ownedRow();
    owner = tensor.keepAlive();
    const auto work = openWork();
    registerWork(tensor, work);
    work->finish(i % 2 == 0 ? nullptr : test::peerDied(), tensor);  // it keeps the tensor
  }
  EXPECT_EQ(workRegistrySize(), 0U);
  EXPECT_TRUE(owner.expired());
}

TEST(WorkRegistryTest, WhatIsUnderWayKeepsItsMemoryAndItsPlace) {
  auto work = openWork();
  std::weak_ptr<const void> owner;
  {
    const Tensor tensor = ownedRow();
    owner = tensor.keepAlive();
    registerWork(tensor, work);
    work->addCallback([tensor] {});  // as operations keep what they write to
  }
  EXPECT_EQ(workRegistrySize(), 1U);
  work->finish();
  work.reset();
  EXPECT_EQ(workRegistrySize(), 0U);
  EXPECT_TRUE(owner.expired());
}

TEST(WorkRegistryTest, TheFirstErrorIsToldOnceWhenAllHaveEnded) {
  const Tensor tensor = ownedRow();
  const auto first = openWork();
  const auto second = openWork();
  const auto third = openWork();
  for (const auto& work : {first, second, third}) {
    registerWork(tensor, work);
  }
  first->finish(test::peerDied());
  second->finish(std::make_exception_ptr(std::runtime_error("broken")));
  BlockedCall waiting([&] { return textOf<DistBackendError>([&] { waitTensor(tensor); }); });
  EXPECT_FALSE(waiting.finished());
  third->finish();

  EXPECT_THAT(waiting.result(), HasSubstr("rank 3 is gone"));
  EXPECT_EQ(waitTensor(tensor).numel(), 4);
}

TEST(WorkRegistryTest, AnErrorIsToldAlsoWhenItsWorkHasBeenLetGo) {
  const Tensor tensor = ownedRow();
  std::weak_ptr<OpenWork> weak;
  {
    const auto work = openWork();
    weak = work;
    registerWork(tensor, work);
    work->finish(test::peerDied());
  }
  EXPECT_EQ(workRegistrySize(), 1U);
  EXPECT_TRUE(weak.expired());
  EXPECT_THROW(waitTensor(tensor), DistBackendError);
}

TEST(WorkRegistryTest, AnotherThreadMayWaitAndCountsOnlyItsOwn) {
  const Tensor tensor = ownedRow();
  const auto work = openWork();
  registerWork(tensor, work);
  std::thread([&] {
    EXPECT_EQ(workRegistrySize(), 0U);
    work->finish();
    waitTensor(tensor);
  }).join();
  EXPECT_EQ(workRegistrySize(), 0U);
}

TEST(WorkRegistryTest, ManyThreadsMayUseItAtOnce) {
  const Tensor shared = ownedRow();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 200; ++turn) {
        const Tensor own = ownedRow();
        const auto work = openWork();
        registerWork(own, work);
        registerWork(shared, work);
        work->finish();
        waitTensor(shared);
        waitTensor(own);
      }
      waitTensor(shared);
      EXPECT_EQ(workRegistrySize(), 0U);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(WorkRegistryTest, AnOwnerMayUseTheRegistryWhileItGoes) {
  struct Memory {
    std::vector<float> values = std::vector<float>(4);
    ~Memory() { EXPECT_LE(workRegistrySize(), 1U); }
  };
  {
    const auto memory = std::make_shared<Memory>();
    const Tensor tensor(memory->values.data(), DType::FLOAT32, Dims{4}, Device{}, memory);
    const auto work = openWork();
    registerWork(tensor, work);
    work->finish(nullptr, tensor);
  }
  EXPECT_EQ(workRegistrySize(), 0U);
}

TEST(WorkRegistryTest, WhatCannotBeFoundAgainIsRefused) {
  std::vector<float> values(2);
  EXPECT_THAT(textOf<UsageError>([&] { registerWork(Tensor(values), finishedWork()); }),
              HasSubstr("whose memory has no owner"));
  EXPECT_THROW(registerWork(ownedRow(), nullptr), UsageError);
}

}  // namespace
}  // namespace unisono

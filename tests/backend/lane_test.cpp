#include "backend/native/lane.hpp"

#include <future>
#include <gmock/gmock.h>
#include <memory>
#include <mutex>
#include <thread>

#include "unisono/base/error.hpp"

#include "store/expect.hpp"
#include "support/watch.hpp"

namespace unisono {
namespace {

using test::textOfThrown;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using namespace std::chrono_literals;

const Milliseconds kPatience = 60s;

std::exception_ptr reason(const char* what) {
  return std::make_exception_ptr(DistBackendError({.reason = Reason::SHUTDOWN, .what = what}));
}

/// Notes when and where it runs.
class Item final : public LaneItem {
 public:
  explicit Item(
      std::function<void()> body = [] {}, Milliseconds timeout = 60s)
      : body_(std::move(body)), timeout_(timeout) {}

  Callbacks run() noexcept override {
    where_ = std::this_thread::get_id();
    body_();
    over_.set_value();
    isOver_.store(true);
    return callback ? Callbacks{callback} : Callbacks{};
  }
  Callbacks fail(std::exception_ptr reason) noexcept override {
    failure = std::move(reason);
    over_.set_value();
    isOver_.store(true);
    return {};
  }
  bool isOver() noexcept override { return isOver_.load(); }
  Milliseconds timeout() const noexcept override { return timeout_; }

  void wait() { ASSERT_EQ(ended_.wait_for(kPatience), std::future_status::ready); }
  bool ranHere() const { return where_ == std::this_thread::get_id(); }

  std::function<void()> callback;
  std::exception_ptr failure;

 private:
  const std::function<void()> body_;
  const Milliseconds timeout_;
  std::thread::id where_;
  std::atomic<bool> isOver_{false};
  std::promise<void> over_;
  std::future<void> ended_ = over_.get_future();
};
using ItemPtr = std::shared_ptr<Item>;

class LaneTest : public ::testing::Test {
 protected:
  /// Occupies the lane until the promise that it gives is kept.
  ItemPtr pushBlocker() {
    auto item = std::make_shared<Item>([this] {
      started_.set_value();
      letGo_.get_future().wait();
    });
    lane_.push(item);
    started_.get_future().wait();
    return item;
  }
  void letGo() { letGo_.set_value(); }

  std::promise<void> started_;
  std::promise<void> letGo_;
  Lane lane_{"lane-test"};
};

TEST_F(LaneTest, RunsWhatNobodyWaitsForInTheOrderOfCalls) {
  std::vector<int> order;
  std::vector<ItemPtr> items;
  for (int i = 0; i < 100; ++i) {
    items.push_back(std::make_shared<Item>([&order, i] { order.push_back(i); }));
    lane_.push(items.back());
  }
  EXPECT_TRUE(lane_.drain(Deadline::after(kPatience)));
  ASSERT_THAT(order, SizeIs(100));
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_FALSE(items[0]->ranHere());
}

TEST_F(LaneTest, IsTakenByOneAtATime) {
  ASSERT_TRUE(lane_.tryTake());
  EXPECT_FALSE(lane_.tryTake());
  const auto item = std::make_shared<Item>();
  lane_.push(item);
  EXPECT_EQ(lane_.queued(), 1U);
  EXPECT_FALSE(lane_.drain(Deadline::after(20ms))) << "who has it has not given it back";
  EXPECT_FALSE(item->isOver());
  lane_.release();
  item->wait();
  EXPECT_TRUE(lane_.drain(Deadline::after(kPatience)));
  EXPECT_TRUE(lane_.tryTake());
  lane_.release();
}

TEST_F(LaneTest, IsNotTakenBeforeWhatIsQueued) {
  const ItemPtr blocker = pushBlocker();
  lane_.push(std::make_shared<Item>());
  EXPECT_FALSE(lane_.tryTake());
  letGo();
  EXPECT_TRUE(lane_.drain(Deadline::after(kPatience)));
}

TEST_F(LaneTest, WhoWaitsRunsWhatIsQueuedBefore) {
  ASSERT_TRUE(lane_.tryTake());  // so that no worker is called
  std::mutex mutex;              // a callback may run beside the next item
  std::vector<int> order;
  const auto calledBack = std::make_shared<std::promise<void>>();
  const auto note = [&](int what) {
    const std::lock_guard lock(mutex);
    order.push_back(what);
  };
  const auto first = std::make_shared<Item>([&] { note(1); });
  const auto second = std::make_shared<Item>([&] { note(2); });
  first->callback = [&note, calledBack] {
    note(10);
    calledBack->set_value();
  };
  lane_.push(first);
  lane_.push(second);
  std::thread other([&] { lane_.release(); });
  other.join();
  while (!second->isOver()) {
    lane_.help(*second, std::chrono::steady_clock::time_point::max());
  }
  EXPECT_TRUE(lane_.drain(Deadline::after(kPatience)));
  ASSERT_EQ(calledBack->get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_THAT(order, ::testing::AnyOf(ElementsAre(1, 10, 2), ElementsAre(1, 2, 10)));
}

TEST_F(LaneTest, WhoWaitsForAMomentDoesNotDriveWhatMayLastLonger) {
  ASSERT_TRUE(lane_.tryTake());
  const auto item = std::make_shared<Item>([] {}, 60s);
  lane_.push(item);
  lane_.release();
  lane_.help(*item, std::chrono::steady_clock::now() + 10s);
  item->wait();
  EXPECT_FALSE(item->ranHere());
}

TEST_F(LaneTest, CallbacksMayWaitForEachOther) {
  // Each waits in its callback for the next one, which needs another worker to be run.
  constexpr int kDepth = 6;
  std::vector<ItemPtr> items;
  for (int i = 0; i <= kDepth; ++i) {
    items.push_back(std::make_shared<Item>());
  }
  for (std::size_t i = 0; i < kDepth; ++i) {
    items[i]->callback = [this, next = items[i + 1]] {
      lane_.push(next);
      next->wait();
    };
  }
  lane_.push(items[0]);
  items.back()->wait();
  EXPECT_TRUE(lane_.drain(Deadline::after(kPatience)));
}

TEST_F(LaneTest, WhatIsQueuedWhenItClosesFailsAndWhatRunsGoesOn) {
  const ItemPtr running = pushBlocker();
  const auto queued = std::make_shared<Item>();
  lane_.push(queued);
  lane_.close(reason("enough"));
  EXPECT_EQ(lane_.queued(), 0U);
  EXPECT_THAT(textOfThrown(queued->failure), HasSubstr("enough"));
  EXPECT_FALSE(running->isOver());

  const auto late = std::make_shared<Item>();
  lane_.push(late);
  EXPECT_THAT(textOfThrown(late->failure), HasSubstr("enough"));
  letGo();
  running->wait();
  EXPECT_EQ(running->failure, nullptr);
  EXPECT_TRUE(lane_.drain(Deadline::after(kPatience)));
  EXPECT_FALSE(lane_.tryTake()) << "it is closed";
}

TEST_F(LaneTest, TheFirstReasonToCloseCounts) {
  lane_.close(reason("first"));
  lane_.close(reason("second"));
  const auto late = std::make_shared<Item>();
  lane_.push(late);
  EXPECT_THAT(textOfThrown(late->failure), HasSubstr("first"));
}

TEST_F(LaneTest, ItsEndWaitsForWhatRuns) {
  const ItemPtr running = pushBlocker();
  std::thread other([&] { lane_.end(); });
  EXPECT_TRUE(test::eventually([&] {
    const auto late = std::make_shared<Item>();
    lane_.push(late);
    return late->isOver();  // it cannot have run: the end has begun
  }));
  EXPECT_FALSE(running->isOver());
  letGo();
  other.join();
  EXPECT_TRUE(running->isOver());
}

}  // namespace
}  // namespace unisono

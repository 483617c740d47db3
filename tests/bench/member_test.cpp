#include "bench/collective/member.hpp"

#include <gmock/gmock.h>
#include <memory>
#include <thread>

#include "base/wait.hpp"

namespace unisono::bench {
namespace {

/// A library with one rank that spoils the result of one of its operations.
class Spoiler final : public Contestant {
 public:
  explicit Spoiler(int which) : which_(which) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void allReduce(float* data, std::size_t /*count*/) override {
    if (done_++ == which_) {
      data[0] += 1;
    }
  }
  void broadcast(float* /*data*/, std::size_t /*count*/) override {}
  void allGather(const float* /*mine*/, float* /*all*/, std::size_t /*count*/) override {}
  void reduceScatter(const float* /*all*/, float* /*part*/, std::size_t /*count*/) override {}
  void allToAll(const float* /*give*/, float* /*take*/, std::size_t /*count*/) override {}
  void barrier() override {}
  void send(const float* /*data*/, std::size_t /*count*/, int /*to*/) override {}
  void receive(float* /*data*/, std::size_t /*count*/, int /*from*/) override {}
  bool hasThreads() const override { return true; }  // leaves this thread on whichever core it is

 private:
  const int which_;
  int done_ = 0;
};

/// Whether a member says that something was wrong, after five operations.
bool isFoundWrong(int spoiled) {
  const auto board = std::make_unique<Board>();
  board->ranks = 1;
  std::thread thread([&] {
    Spoiler spoiler(spoiled);
    Member(spoiler, *board, 0).serve();
  });
  const auto tell = [&](const Task& task) {
    board->task = task;
    board->turn[0].fetch_add(1, std::memory_order_acq_rel);
    wakeAll(board->turn[0]);
  };
  TimerWaitable often(Milliseconds(1));
  const auto await = [&](const std::atomic<std::uint32_t>& word) {
    return waitUntil([&] { return word.load(std::memory_order_acquire) == 1; },
                     {.deadline = Deadline::after(Milliseconds(20'000)), .subject = {}}, often);
  };
  EXPECT_TRUE(await(board->ready[0]));
  tell({.op = Op::ALL_REDUCE, .bytes = 64, .count = 5});
  EXPECT_TRUE(await(board->finished));
  tell({});
  thread.join();
  return board->wrong.load() == 1;
}

TEST(MemberTest, FindsAWrongResultOfTheFirstAndOfTheLastOperation) {
  EXPECT_TRUE(isFoundWrong(0));
  EXPECT_TRUE(isFoundWrong(4));
  EXPECT_FALSE(isFoundWrong(5)) << "there is no such operation";
}

}  // namespace
}  // namespace unisono::bench

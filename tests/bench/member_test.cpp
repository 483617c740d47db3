#include "bench/collective/member.hpp"

#include <algorithm>
#include <cstring>
#include <gmock/gmock.h>
#include <memory>
#include <thread>
#include <vector>

#include "base/wait.hpp"

namespace unisono::bench {
namespace {

/// A library that does everything with copies, for one rank or two that give the same; it spoils
/// the result of one of its operations.
class Spoiler final : public Contestant {
 public:
  explicit Spoiler(int which, int rank = 0, int size = 1)
      : which_(which), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string version() const override { return "Spoiler 1.0"; }
  bool use(Element element, Reduction /*reduction*/) override {
    width_ = bytesOf(element);
    return element != Element::FLOAT16;
  }
  void allReduce(void* data, std::size_t /*count*/) override { spoil(data); }
  void reduce(void* data, std::size_t /*count*/, int /*root*/) override { spoil(data); }
  void broadcast(void* data, std::size_t /*count*/, int /*root*/) override { spoil(data); }
  void allGather(const void* mine, void* all, std::size_t count) override {
    copy(all, mine, count);
  }
  void gather(const void* mine, void* all, std::size_t count, int /*root*/) override {
    copy(all, mine, count);
  }
  void scatter(const void* all, void* part, std::size_t count, int /*root*/) override {
    copy(part, all, count);
  }
  void reduceScatter(const void* all, void* part, std::size_t count) override {
    copy(part, all, count);
  }
  void allToAll(const void* give, void* take, std::size_t count) override {
    copy(take, give, count);
  }
  void barrier() override {}
  void send(const void* /*data*/, std::size_t /*count*/, int /*to*/) override {}
  void receive(void* /*data*/, std::size_t /*count*/, int /*from*/) override {}
  bool hasThreads() const override { return true; }  // leaves this thread on whichever core it is

 private:
  void copy(void* to, const void* from, std::size_t count) {
    std::memcpy(to, from, count * width_);
    spoil(to);
  }
  void spoil(void* data) {
    if (done_++ == which_) {
      std::memset(data, 0x55, width_);
    }
  }

  const int which_;
  const int rank_;
  const int size_;
  std::size_t width_ = 0;
  int done_ = 0;
};

constexpr int kNone = -1;

/// What is on the board after `task` of a library of `ranks` ranks, each a thread.
std::unique_ptr<Board> boardAfter(const Task& task, int spoiled = kNone, int ranks = 1) {
  auto board = std::make_unique<Board>();
  board->ranks = static_cast<std::uint32_t>(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&board, spoiled, rank, ranks] {
      Spoiler spoiler(spoiled, rank, ranks);
      Member(spoiler, *board, 0).serve();
    });
  }
  const auto tell = [&](const Task& next) {
    board->task = next;
    board->turn[0].fetch_add(1, std::memory_order_acq_rel);
    wakeAll(board->turn[0]);
  };
  TimerWaitable often(Milliseconds(1));
  const auto await = [&](const std::atomic<std::uint32_t>& word) {
    return waitUntil([&] { return word.load(std::memory_order_acquire) == board->ranks; },
                     {.deadline = Deadline::after(Milliseconds(20'000)), .subject = {}}, often);
  };
  EXPECT_TRUE(await(board->ready[0]));
  tell(task);
  EXPECT_TRUE(await(board->finished));
  tell({});
  for (std::thread& thread : threads) {
    thread.join();
  }
  return board;
}

bool isFoundWrong(Op op, Element element, int spoiled) {
  const Task task{.op = op, .bytes = 1024, .count = 5, .element = element};
  return boardAfter(task, spoiled)->wrong.load() == 1;
}

TEST(MemberTest, FindsAWrongResultOfTheFirstAndOfTheLastOperation) {
  for (const Op op : {Op::ALL_REDUCE, Op::REDUCE, Op::BROADCAST, Op::ALL_GATHER, Op::GATHER,
                      Op::SCATTER, Op::REDUCE_SCATTER, Op::ALL_TO_ALL}) {
    for (const Element element :
         {Element::FLOAT32, Element::FLOAT64, Element::BFLOAT16, Element::INT32, Element::INT64}) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(op) << " of " << nameOf(element));
      EXPECT_TRUE(isFoundWrong(op, element, 0));
      EXPECT_TRUE(isFoundWrong(op, element, 4));
      EXPECT_FALSE(isFoundWrong(op, element, 5)) << "there is no such operation";
    }
  }
}

/// One rank of two whose elements the other has too, so that it knows what comes out.
class Reducer final : public Contestant {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::string version() const override { return "Reducer"; }
  bool use(Element /*element*/, Reduction reduction) override {
    reduction_ = reduction;
    return true;
  }
  void allReduce(void* data, std::size_t count) override {
    auto* const values = static_cast<float*>(data);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = together(values[i], i);
    }
  }
  void reduce(void* /*data*/, std::size_t /*count*/, int root) override { roots.push_back(root); }
  void broadcast(void* data, std::size_t count, int root) override {
    roots.push_back(root);
    auto* const values = static_cast<float*>(data);
    std::for_each(values, values + count, [&](float& value) { value += static_cast<float>(root); });
  }
  void allGather(const void* /*mine*/, void* /*all*/, std::size_t /*count*/) override {}
  void gather(const void* /*mine*/, void* /*all*/, std::size_t /*count*/, int root) override {
    roots.push_back(root);
  }
  void scatter(const void* all, void* part, std::size_t count, int root) override {
    std::memcpy(part, all, count * sizeof(float));
    broadcast(part, count, root);
  }
  void reduceScatter(const void* /*all*/, void* /*part*/, std::size_t /*count*/) override {}
  void allToAll(const void* /*give*/, void* /*take*/, std::size_t /*count*/) override {}
  void barrier() override { ++barriers; }
  void send(const void* /*data*/, std::size_t /*count*/, int /*to*/) override {}
  void receive(void* /*data*/, std::size_t /*count*/, int /*from*/) override {}
  bool isApart() const override { return true; }

  int barriers = 0;
  std::vector<int> roots;
  bool spoils = false;

 private:
  float together(float mine, std::size_t i) const {
    const float other = reduction_ == Reduction::PROD ? 3 - mine : mine + 1;
    const float wrong = spoils && i % 2 == 0 ? 7 : 0;
    switch (reduction_) {
      case Reduction::SUM:
        return mine + other + wrong;
      case Reduction::PROD:
        return mine * other + wrong;
      case Reduction::MIN:
        return std::min(mine, other) + wrong;
      case Reduction::MAX:
        return std::max(mine, other) + wrong;
      case Reduction::AVG:
        return (mine + other) / 2 + wrong;
    }
    return 0;
  }
  Reduction reduction_ = Reduction::SUM;
};

TEST(MemberTest, KnowsWhatEveryReductionMakesAndCountsTheWrongElements) {
  for (const NamedReduction& each : kReductions) {
    SCOPED_TRACE(each.name);
    const auto board = std::make_unique<Board>();
    Reducer reducer;
    const Task task{.op = Op::ALL_REDUCE, .bytes = 400, .count = 2, .reduction = each.reduction};
    Member(reducer, *board, 0).perform(task);
    EXPECT_EQ(board->wrong.load(), 0U);
    EXPECT_EQ(reducer.barriers, 2) << "ranks that are apart meet by their library";
    reducer.spoils = true;
    Member(reducer, *board, 0).perform(task);
    EXPECT_EQ(board->wrong.load(), 2U * 50) << "half of them, twice";
    Task unchecked = task;
    unchecked.isChecked = false;
    Member(reducer, *board, 0).perform(unchecked);
    EXPECT_EQ(board->wrong.load(), 2U * 50) << "nobody has looked";
  }
}

TEST(MemberTest, AnotherRankMayBeTheRoot) {
  for (const Op op : {Op::REDUCE, Op::BROADCAST, Op::GATHER, Op::SCATTER}) {
    SCOPED_TRACE(static_cast<int>(op));
    const auto board = std::make_unique<Board>();
    Reducer reducer;
    Member(reducer, *board, 0).perform({.op = op, .bytes = 400, .count = 1, .root = 1});
    EXPECT_EQ(reducer.roots, std::vector<int>{1});
    EXPECT_EQ(board->wrong.load(), 0U) << "rank 0 has what the root gave, and need not have more";
  }
}

TEST(MemberTest, SaysWhenALibraryHasNoSuchElements) {
  const Task task{.op = Op::ALL_REDUCE, .bytes = 64, .count = 5, .element = Element::FLOAT16};
  EXPECT_EQ(boardAfter(task)->lacking.load(), 1U);
}

TEST(MemberTest, TellsTheVersionOfItsLibrary) {
  EXPECT_STREQ(boardAfter({.op = Op::BARRIER, .count = 1})->version[0], "Spoiler 1.0");
}

TEST(MemberTest, ChecksTheFirstOfOperationsInARow) {
  const Task task{.op = Op::ALL_REDUCE, .bytes = 64, .count = 1000, .inARow = true};
  EXPECT_EQ(boardAfter(task)->wrong.load(), 0U);
  EXPECT_EQ(boardAfter(task, 0)->wrong.load(), 1U);
  EXPECT_GT(boardAfter(task)->nanoseconds[0][0], 0U);
  EXPECT_EQ(boardAfter(task)->nanoseconds[0][1], 0U) << "there is only one time";
}

TEST(MemberTest, MeasuresWhatTheMachineCanDo) {
  for (const Op op : {Op::COPY, Op::READ_MODIFY, Op::LINE_FLIGHT}) {
    const auto board = boardAfter({.op = op, .bytes = 1U << 20U, .count = 3}, kNone, 2);
    EXPECT_EQ(board->wrong.load(), 0U);
    EXPECT_GT(board->nanoseconds[0][2], 0U) << static_cast<int>(op);
  }
}

}  // namespace
}  // namespace unisono::bench

// How many operations may be under way, and what happens to the next one.
#include <gmock/gmock.h>

#include "backend/native_world.hpp"

namespace unisono {
namespace {

using test::NativeWorld;
using test::textOf;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::HasSubstr;

constexpr std::size_t kMost = 65'536;

class LimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "so many of one thread take a minute, and show ThreadSanitizer nothing";
#endif
  }
};

/// Begins what `begin` begins until it is refused; the works.
template <typename Begin>
std::vector<WorkPtr> fillUp(Begin begin, const char* what) {
  std::vector<WorkPtr> works;
  const std::string refusal = textOf<DistBackendError>([&] {
    while (works.size() <= 2 * kMost) {
      works.push_back(begin());
    }
  });
  EXPECT_THAT(refusal, AllOf(HasSubstr("more than 65536"), HasSubstr(what), HasSubstr("[LIMIT]"),
                             HasSubstr("DO: wait for some of them")));
  return works;
}

TEST_F(LimitsTest, OneMoreOperationIsRefusedUntilOneIsOver) {
  NativeWorld world(2);
  std::vector<float> mine(1, 1);
  std::vector<float> theirs(1, 1);
  const auto begin = [&] { return world[0].allreduce({Tensor(mine)}); };
  const std::vector<WorkPtr> works = fillUp(begin, "operations are under way");
  // One of them may have left the queue: it waits for the other rank.
  EXPECT_THAT(works.size(), AnyOf(Eq(kMost), Eq(kMost + 1)));

  for (int turn = 0; turn < 3; ++turn) {
    world[1].allreduce({Tensor(theirs)}, {.asyncOp = false})->wait();
  }
  works[2]->wait();
  EXPECT_FALSE(begin()->isCompleted());
  world[0].abort(nullptr);
  EXPECT_THAT(textOf<DistBackendError>([&] { works.back()->wait(); }), HasSubstr("[ABORTED]"));
}

TEST_F(LimitsTest, OneMoreMessageIsRefusedUntilOneIsOver) {
  NativeWorld world(2);
  std::vector<float> mine(1);
  std::vector<float> theirs(1, 7);
  const auto begin = [&] { return world[0].recv({Tensor(mine)}, 1, 5); };
  const std::vector<WorkPtr> works = fillUp(begin, "messages are under way");
  EXPECT_EQ(works.size(), kMost);

  CollectiveArgs message;
  message.type = OpType::RECV;
  message.outputs = {Tensor(mine)};
  message.peer = 1;
  EXPECT_THAT(textOf<DistBackendError>([&] {
                static_cast<void>(world[0].submitCoalesced({message, message}));
              }),
              HasSubstr("[LIMIT]"));

  world[1].send({Tensor(theirs)}, 0, 5)->wait();
  works[0]->wait();
  EXPECT_EQ(mine[0], 7);
  EXPECT_FALSE(begin()->isCompleted());
  world[0].abort(nullptr);
  EXPECT_THAT(textOf<DistBackendError>([&] { works.back()->wait(); }), HasSubstr("[ABORTED]"));
}

}  // namespace
}  // namespace unisono

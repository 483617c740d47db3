// Frames through a ring of memory, and what a reader makes of memory that lies.
#include "transport/shm/pipe.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

namespace unisono::shm {
namespace {

constexpr std::size_t kRing = 1024;

/// Both ends of a pipe, each with a view of its own, as in two processes.
class PipeTest : public ::testing::Test {
 protected:
  struct alignas(128) Memory {
    std::byte bytes[sizeof(PipeCounters) + kRing] = {};
  };
  PipeCounters& counters() { return *reinterpret_cast<PipeCounters*>(memory_->bytes); }
  /// Where the reader finds the head of the first frame.
  Frame& firstHead() { return *reinterpret_cast<Frame*>(memory_->bytes + sizeof(PipeCounters)); }
  void send(std::int32_t tag, std::size_t bytes) {
    const std::vector<std::byte> payload(bytes, static_cast<std::byte>(tag));
    writer.put({.kind = FrameKind::MESSAGE, .tag = tag, .bytes = bytes}, payload);
    writer.publish();
  }
  void expect(std::int32_t tag, std::size_t bytes) {
    ASSERT_TRUE(reader.hasFrame());
    Frame frame;
    ASSERT_TRUE(reader.look(frame));
    EXPECT_EQ(frame.tag, tag);
    ASSERT_EQ(frame.bytes, bytes);
    std::vector<std::byte> payload(bytes);
    reader.take(frame, payload.data());
    reader.release();
    EXPECT_EQ(std::count(payload.begin(), payload.end(), static_cast<std::byte>(tag)),
              static_cast<std::ptrdiff_t>(bytes));
  }

 private:
  std::unique_ptr<Memory> memory_ = std::make_unique<Memory>();

 protected:
  Pipe writer{memory_->bytes};
  Pipe reader{memory_->bytes};
};

TEST_F(PipeTest, KeepsTheOrderAndTheBytesRoundAndRound) {
  EXPECT_FALSE(reader.hasFrame());
  for (int turn = 0; turn < 200; ++turn) {
    const auto bytes = static_cast<std::size_t>(turn * 7 % 300);
    ASSERT_TRUE(writer.hasRoom(bytes));
    send(turn % 100, bytes);
    ASSERT_TRUE(writer.hasRoom(33));
    send(100, 33);
    expect(turn % 100, bytes);
    expect(100, 33);
  }
  EXPECT_FALSE(reader.hasFrame());
}

TEST_F(PipeTest, HasRoomForWhatFitsAndNoMore) {
  EXPECT_TRUE(writer.hasRoom(kRing - sizeof(Frame)));
  EXPECT_FALSE(writer.hasRoom(kRing - sizeof(Frame) + 1));
  send(1, kRing - sizeof(Frame));
  EXPECT_FALSE(writer.hasRoom(0));
  expect(1, kRing - sizeof(Frame));
  EXPECT_TRUE(writer.hasRoom(0)) << "once the reader has released it";
}

TEST_F(PipeTest, AHeadThatCannotBeTrueIsNotTaken) {
  send(3, 100);
  Frame frame;
  firstHead().bytes = kRing;
  EXPECT_FALSE(reader.look(frame)) << "longer than what is there";
  firstHead().bytes = ~std::uint64_t{0};
  EXPECT_FALSE(reader.look(frame));
  firstHead() = {.kind = static_cast<FrameKind>(9), .tag = 3, .bytes = 100};
  EXPECT_FALSE(reader.look(frame)) << "of an unknown kind";
  firstHead() = {.kind = FrameKind::MESSAGE, .tag = -3, .bytes = 100};
  EXPECT_FALSE(reader.look(frame)) << "of no tag";
  firstHead() = {.kind = FrameKind::MESSAGE, .tag = 3, .bytes = 100};
  EXPECT_TRUE(reader.look(frame));
}

TEST_F(PipeTest, CountersThatCannotBeTrueAreNotBelieved) {
  Frame frame;
  counters().written = 10 * kRing;
  EXPECT_FALSE(reader.look(frame)) << "more than the ring holds";
  counters().written = 5;
  EXPECT_FALSE(reader.look(frame)) << "less than a head";

  send(1, kRing - sizeof(Frame));
  counters().read = 100 * kRing;
  EXPECT_FALSE(writer.hasRoom(0)) << "more was read than written";
}

}  // namespace
}  // namespace unisono::shm

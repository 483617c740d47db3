// Frames through a ring of memory, and what a reader makes of memory that lies.
#include "transport/shm/pipe.hpp"

#include <algorithm>
#include <cstring>
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
    std::byte bytes[sizeof(PipeCounter) + kRing] = {};
  };
  PipeCounter& counter() { return *reinterpret_cast<PipeCounter*>(memory_->bytes); }
  /// Where the reader finds the head of the first frame.
  PipeHead& firstHead() {
    return *reinterpret_cast<PipeHead*>(memory_->bytes + sizeof(PipeCounter));
  }
  void send(std::int32_t tag, std::size_t bytes) {
    const std::vector<std::byte> payload(bytes, static_cast<std::byte>(tag));
    writer.put({.kind = FrameKind::MESSAGE, .tag = tag, .bytes = bytes}, payload);
  }
  void expect(std::int32_t tag, std::size_t bytes) {
    ASSERT_TRUE(reader.hasFrame());
    Frame frame;
    ASSERT_TRUE(reader.look(frame));
    EXPECT_EQ(frame.tag, tag);
    ASSERT_EQ(frame.bytes, bytes);
    std::vector<std::byte> payload(bytes);
    tellsOfRoom = reader.take(frame, payload.data());
    EXPECT_EQ(std::count(payload.begin(), payload.end(), static_cast<std::byte>(tag)),
              static_cast<std::ptrdiff_t>(bytes));
  }

 private:
  std::unique_ptr<Memory> memory_ = std::make_unique<Memory>();

 protected:
  bool tellsOfRoom = false;  // the last one that was taken
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

TEST_F(PipeTest, HasRoomForWhatFitsAndTheHeadToComeAndNoMore) {
  constexpr std::size_t kMost = kRing - 2 * sizeof(PipeHead);
  EXPECT_TRUE(writer.hasRoom(kMost));
  EXPECT_FALSE(writer.hasRoom(kMost + 1));
  send(1, kMost);
  EXPECT_FALSE(writer.hasRoom(0));
  expect(1, kMost);
  EXPECT_TRUE(tellsOfRoom);
  EXPECT_TRUE(writer.hasRoom(0)) << "once the reader has told of it";
}

TEST_F(PipeTest, TellsOfRoomOnlyWhenItIsWorthwhile) {
  // 64 bytes each: the fourth makes a quarter of the ring.
  for (int i = 0; i < 8; ++i) {
    send(i, 8);
  }
  for (int i = 0; i < 8; ++i) {
    expect(i, 8);
    EXPECT_EQ(tellsOfRoom, i % 4 == 3) << "after " << i + 1;
  }
}

TEST_F(PipeTest, APayloadIsNeverTakenForTheNextHead) {
  // Words that say that a frame is there, all over the ring.
  const std::uint32_t word = static_cast<std::uint32_t>(FrameKind::MESSAGE);
  std::vector<std::byte> payload(256);
  for (std::size_t i = 0; i + sizeof word <= payload.size(); i += sizeof word) {
    std::memcpy(payload.data() + i, &word, sizeof word);
  }
  for (int turn = 0; turn < 50; ++turn) {
    const auto bytes = static_cast<std::size_t>(turn * 24 % 256);
    writer.put({.kind = FrameKind::MESSAGE, .bytes = bytes}, std::span(payload).first(bytes));
    Frame frame;
    ASSERT_TRUE(reader.look(frame));
    ASSERT_EQ(frame.bytes, bytes);
    reader.take(frame, std::vector<std::byte>(bytes).data());
    ASSERT_FALSE(reader.hasFrame());
    ASSERT_TRUE(writer.hasRoom(256));
  }
}

TEST_F(PipeTest, AHeadThatCannotBeTrueIsNotTaken) {
  send(3, 100);
  Frame frame;
  PipeHead& head = firstHead();
  head.bytes = kRing;
  EXPECT_FALSE(reader.look(frame)) << "longer than the ring";
  head.bytes = ~std::uint64_t{0};
  EXPECT_FALSE(reader.look(frame));
  head.bytes = 100;
  head.kind = static_cast<FrameKind>(9);
  EXPECT_FALSE(reader.look(frame)) << "of an unknown kind";
  head.kind = FrameKind::MESSAGE;
  head.tag = -3;
  EXPECT_FALSE(reader.look(frame)) << "of no tag";
  head.tag = 3;
  EXPECT_TRUE(reader.look(frame));
}

TEST_F(PipeTest, ACounterThatCannotBeTrueIsNotBelieved) {
  send(1, kRing - 2 * sizeof(PipeHead));
  counter().read = 100 * kRing;
  EXPECT_FALSE(writer.hasRoom(0)) << "more was read than written";
}

}  // namespace
}  // namespace unisono::shm

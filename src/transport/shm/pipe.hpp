// Pipe: frames from one rank to another, in order, through a ring of shared memory.
//
// A frame is a head of 32 bytes and its payload, rounded up to 32. Two counters of bytes, one
// written by each side, say how much has been put in and taken out; they only grow.
//
// The reader trusts nothing: the other side is another process. A head is copied before it is
// looked at, and one that cannot be true ends the pipe.
//
// Thread safety: one thread at a time on each side.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace unisono::shm {

enum class FrameKind : std::uint32_t {
  MESSAGE = 1,  // a whole message: its tag, its bytes
  OFFER = 2,    // a long one is there: its tag, its length, the sender's number for it
  TAKE = 3,     // back: send the one with this number
  PART = 4,     // some bytes of the one with this number
};

struct Frame {
  FrameKind kind = FrameKind::MESSAGE;
  std::int32_t tag = 0;
  std::uint64_t bytes = 0;  // of the message; of the payload for PART
  std::uint64_t number = 0;
  std::uint64_t reserved = 0;
};
static_assert(sizeof(Frame) == 32);

/// The part of a pipe that both sides count in.
struct PipeCounters {
  alignas(128) std::atomic<std::uint64_t> written;
  alignas(128) std::atomic<std::uint64_t> read;
};

/// How long a pipe of a group of so many ranks is, counters included: they have a lot of pipes.
constexpr std::size_t pipeBytes(std::size_t ranks) noexcept {
  return sizeof(PipeCounters) + (ranks <= 32 ? 64U << 10U : 16U << 10U);
}

class Pipe {
 public:
  Pipe() = default;
  explicit Pipe(std::span<std::byte> memory) noexcept
      : counters_(reinterpret_cast<PipeCounters*>(memory.data())),
        ring_(memory.subspan(sizeof(PipeCounters))) {}

  bool isOpen() const noexcept { return counters_ != nullptr; }

  // --- the writing side ---

  /// Whether a frame with so long a payload fits in now.
  bool hasRoom(std::size_t payload) noexcept;
  /// Puts a frame in, for which there is room; seen by the reader after publish().
  void put(const Frame& frame, std::span<const std::byte> payload) noexcept;
  /// Sequentially consistent: before ringing the reader's door.
  void publish() noexcept { counters_->written.exchange(written_, std::memory_order_seq_cst); }

  // --- the reading side ---

  /// Whether a frame is there: one load.
  bool hasFrame() const noexcept {
    // Acquire: the frames it counts.
    return counters_->written.load(std::memory_order_acquire) != read_;
  }
  /// The next frame's head. False when it, or what the counters say, cannot be true.
  bool look(Frame& frame) const noexcept;
  /// Takes the frame out, with its payload.
  void take(const Frame& frame, std::byte* into) noexcept;
  /// Sequentially consistent: before ringing the writer's door.
  void release() noexcept { counters_->read.exchange(read_, std::memory_order_seq_cst); }

 private:
  static std::size_t payloadOf(const Frame& frame) noexcept {
    return frame.kind == FrameKind::MESSAGE || frame.kind == FrameKind::PART ? frame.bytes : 0;
  }
  void copyIn(std::uint64_t at, const std::byte* from, std::size_t bytes) noexcept;
  void copyOut(std::uint64_t at, std::byte* into, std::size_t bytes) const noexcept;

  PipeCounters* counters_ = nullptr;
  std::span<std::byte> ring_;
  std::uint64_t written_ = 0;  // what this side has put in
  std::uint64_t read_ = 0;     // taken out: by this side, or as last seen of the reader
};

}  // namespace unisono::shm

// Pipe: frames from one rank to another, in order, through a ring of shared memory.
//
// A frame is a head of 32 bytes and its payload, rounded up to 32. The first word of a head says
// whether it is there, so that a short message is seen and fetched with one line of memory: the
// writer clears that word of the head to come, and writes its own last. A counter tells the writer
// how much has been taken out.
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
  NONE = 0,
  MESSAGE = 1,  // a whole message: its tag, its bytes
  OFFER = 2,    // a long one is there: its tag, length, address, the sender's number for it
  TAKE = 3,     // back: send the one with this number
  PART = 4,     // some bytes of the one with this number
  TAKEN = 5,    // back: the one with this number was read where it is
};

struct Frame {
  FrameKind kind = FrameKind::NONE;
  std::int32_t tag = 0;
  std::uint64_t bytes = 0;  // of the message; of the payload for PART
  std::uint64_t number = 0;
  std::uint64_t address = 0;  // in the sender's process
};

/// A frame's head as it lies in the ring.
struct PipeHead {
  std::atomic<FrameKind> kind;  // written last
  std::int32_t tag;
  std::uint64_t bytes;
  std::uint64_t number;
  std::uint64_t address;
};
static_assert(sizeof(PipeHead) == 32);

/// What lies before the ring.
struct PipeCounter {
  alignas(128) std::atomic<std::uint64_t> read;  // bytes taken out, told now and then
  std::atomic<std::uint64_t> kept;  // bytes of whole messages that the reader keeps for later
};
static_assert(sizeof(PipeCounter) == 128);

/// How long a pipe of a group of so many ranks is, counter included: they have a lot of pipes.
constexpr std::size_t pipeBytes(std::size_t ranks) noexcept {
  return sizeof(PipeCounter) + (ranks <= 32 ? 64U << 10U : 16U << 10U);
}

class Pipe {
 public:
  Pipe() = default;
  explicit Pipe(std::span<std::byte> memory) noexcept
      : counter_(reinterpret_cast<PipeCounter*>(memory.data())),
        ring_(memory.subspan(sizeof(PipeCounter))) {}

  bool isOpen() const noexcept { return counter_ != nullptr; }

  // --- the writing side ---

  /// Whether a frame with so long a payload fits in now: at least half of the ring always comes
  /// free again.
  bool hasRoom(std::size_t payload) noexcept;
  /// How many bytes the reader says it keeps.
  std::uint64_t kept() const noexcept { return counter_->kept.load(std::memory_order_relaxed); }
  /// Puts a frame in, for which there is room. Sequentially consistent: before ringing the
  /// reader's door.
  void put(const Frame& frame, std::span<const std::byte> payload) noexcept;

  // --- the reading side ---

  /// The word that changes from NONE when the next frame is there.
  const std::atomic<FrameKind>& next() const noexcept { return head(read_).kind; }
  /// Whether a frame is there: one load.
  bool hasFrame() const noexcept {
    // Acquire: the rest of the frame.
    return next().load(std::memory_order_acquire) != FrameKind::NONE;
  }
  /// The next frame's head, which is there. False when it cannot be true.
  bool look(Frame& frame) const noexcept;
  /// Takes the frame out, with its payload. True when the writer was told of the room, and its door
  /// is to be rung (told sequentially consistent).
  bool take(const Frame& frame, std::byte* into) noexcept;
  /// Tells how much of what was taken out is kept. Relaxed: the writer only takes another way.
  void tellKept(std::uint64_t bytes) noexcept {
    counter_->kept.store(bytes, std::memory_order_relaxed);
  }

 private:
  static std::size_t payloadOf(const Frame& frame) noexcept {
    return frame.kind == FrameKind::MESSAGE || frame.kind == FrameKind::PART ? frame.bytes : 0;
  }
  /// Where in the ring, whose length is a power of two.
  std::size_t place(std::uint64_t at) const noexcept { return at & (ring_.size() - 1); }
  PipeHead& head(std::uint64_t at) const noexcept {
    return *reinterpret_cast<PipeHead*>(ring_.data() + place(at));
  }
  void copyIn(std::uint64_t at, const std::byte* from, std::size_t bytes) noexcept;
  void copyOut(std::uint64_t at, std::byte* into, std::size_t bytes) const noexcept;

  PipeCounter* counter_ = nullptr;
  std::span<std::byte> ring_;
  std::uint64_t written_ = 0;  // what this side has put in
  std::uint64_t read_ = 0;     // taken out: by this side, or as last seen of the reader
  std::uint64_t told_ = 0;     // of read_
};

}  // namespace unisono::shm

#include "transport/shm/pipe.hpp"

#include <algorithm>
#include <cstring>

namespace unisono::shm {
namespace {

constexpr std::size_t kHead = sizeof(PipeHead);
/// The reader tells of room when it is this part of the ring.
constexpr std::size_t kTellAt = 4;

constexpr std::uint64_t roundedUp(std::uint64_t bytes) noexcept {
  return (bytes + kHead - 1) / kHead * kHead;
}

}  // namespace

bool Pipe::hasRoom(std::size_t payload) noexcept {
  const std::uint64_t wanted = kHead + roundedUp(payload) + kHead;  // and the head to come
  if (ring_.size() - (written_ - read_) >= wanted) {
    return true;
  }
  // Acquire: the reader has copied what it says is read.
  const std::uint64_t seen = counter_->read.load(std::memory_order_acquire);
  if (seen > read_ && seen <= written_) {  // else it cannot be true
    read_ = seen;
  }
  return ring_.size() - (written_ - read_) >= wanted;
}

void Pipe::put(const Frame& frame, std::span<const std::byte> payload) noexcept {
  PipeHead& mine = head(written_);
  copyIn(written_ + kHead, payload.data(), payload.size());
  written_ += kHead + roundedUp(payload.size());
  head(written_).kind.store(FrameKind::NONE, std::memory_order_relaxed);
  mine.tag = frame.tag;
  mine.bytes = frame.bytes;
  mine.number = frame.number;
  mine.address = frame.address;
  mine.kind.exchange(frame.kind, std::memory_order_seq_cst);
}

bool Pipe::look(Frame& frame) const noexcept {
  const PipeHead& there = head(read_);
  frame = {.kind = there.kind.load(std::memory_order_acquire),
           .tag = there.tag,
           .bytes = there.bytes,
           .number = there.number,
           .address = there.address};
  const bool known = frame.kind >= FrameKind::MESSAGE && frame.kind <= FrameKind::TAKEN;
  return known && frame.tag >= 0 && payloadOf(frame) <= ring_.size() - 2 * kHead;
}

bool Pipe::take(const Frame& frame, std::byte* into) noexcept {
  const std::size_t payload = payloadOf(frame);
  copyOut(read_ + kHead, into, payload);
  read_ += kHead + roundedUp(payload);
  if (read_ - told_ < ring_.size() / kTellAt) {
    return false;
  }
  told_ = read_;
  counter_->read.exchange(read_, std::memory_order_seq_cst);
  return true;
}

void Pipe::copyIn(std::uint64_t at, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes == 0) {
    return;
  }
  const std::size_t begin = place(at);
  const std::size_t first = std::min(bytes, ring_.size() - begin);
  std::memcpy(ring_.data() + begin, from, first);
  std::memcpy(ring_.data(), from + first, bytes - first);
}

void Pipe::copyOut(std::uint64_t at, std::byte* into, std::size_t bytes) const noexcept {
  if (bytes == 0) {
    return;
  }
  const std::size_t begin = place(at);
  const std::size_t first = std::min(bytes, ring_.size() - begin);
  std::memcpy(into, ring_.data() + begin, first);
  std::memcpy(into + first, ring_.data(), bytes - first);
}

}  // namespace unisono::shm

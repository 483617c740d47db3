#include "transport/shm/pipe.hpp"

#include <algorithm>
#include <cstring>

namespace unisono::shm {
namespace {

constexpr std::size_t kHead = sizeof(Frame);

constexpr std::uint64_t roundedUp(std::uint64_t bytes) noexcept {
  return (bytes + kHead - 1) / kHead * kHead;
}

}  // namespace

bool Pipe::hasRoom(std::size_t payload) noexcept {
  const std::uint64_t wanted = kHead + roundedUp(payload);
  if (ring_.size() - (written_ - read_) >= wanted) {
    return true;
  }
  // Acquire: the reader has copied what it says is read.
  const std::uint64_t seen = counters_->read.load(std::memory_order_acquire);
  if (seen > read_ && seen <= written_) {  // else it cannot be true
    read_ = seen;
  }
  return ring_.size() - (written_ - read_) >= wanted;
}

void Pipe::put(const Frame& frame, std::span<const std::byte> payload) noexcept {
  copyIn(written_, reinterpret_cast<const std::byte*>(&frame), kHead);
  copyIn(written_ + kHead, payload.data(), payload.size());
  written_ += kHead + roundedUp(payload.size());
}

bool Pipe::look(Frame& frame) const noexcept {
  const std::uint64_t there = counters_->written.load(std::memory_order_acquire) - read_;
  if (there < kHead || there > ring_.size()) {
    return false;
  }
  copyOut(read_, reinterpret_cast<std::byte*>(&frame), kHead);
  const bool known = frame.kind >= FrameKind::MESSAGE && frame.kind <= FrameKind::PART;
  return known && frame.tag >= 0 && payloadOf(frame) <= there - kHead;
}

void Pipe::take(const Frame& frame, std::byte* into) noexcept {
  const std::size_t payload = payloadOf(frame);
  copyOut(read_ + kHead, into, payload);
  read_ += kHead + roundedUp(payload);
}

void Pipe::copyIn(std::uint64_t at, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes == 0) {
    return;
  }
  const std::size_t begin = at % ring_.size();
  const std::size_t first = std::min(bytes, ring_.size() - begin);
  std::memcpy(ring_.data() + begin, from, first);
  std::memcpy(ring_.data(), from + first, bytes - first);
}

void Pipe::copyOut(std::uint64_t at, std::byte* into, std::size_t bytes) const noexcept {
  if (bytes == 0) {
    return;
  }
  const std::size_t begin = at % ring_.size();
  const std::size_t first = std::min(bytes, ring_.size() - begin);
  std::memcpy(into, ring_.data() + begin, first);
  std::memcpy(into + first, ring_.data(), bytes - first);
}

}  // namespace unisono::shm

// RegisteredMemory: tensors that the other ranks of a group reach without a copy in between.
//
// A block is a sealed memfd of its own. Its rank uses it as ordinary memory; the others map it when
// an operation first needs it, which they learn from the place its rank announces. A block goes
// with the last copy of the pointer that allocate() gave, also after the group; its pages are given
// back at once, though others may still have them mapped. As no two tensors share a block, and none
// is used again, what a late peer still writes there harms nobody.
//
// Thread safety: allocate() and find() from any thread; reach() from the one that drives the
// group's operations. Pointers may go on any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "base/clock.hpp"
#include "base/shared_memory.hpp"
#include "transport/shm/segment.hpp"

namespace unisono::shm {

class RegisteredMemory {
 public:
  explicit RegisteredMemory(Segment& segment);
  /// Blocks that are still in use become ordinary memory.
  ~RegisteredMemory();
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  /// `bytes` zeroed bytes at least, on pages of their own. Throws DistError: RESOURCE when there is
  /// no room for them, LIMIT when there are kMostBlocks already.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);

  /// Where in a block of this rank `bytes` lie; nowhere when they are ordinary memory.
  Place find(std::span<const std::byte> bytes) const noexcept;

  /// The `bytes` bytes that rank `peer` has at `place`. Throws DistError when its block cannot be
  /// mapped: RESOURCE, PROTOCOL, PEER_DEAD, PEER_LEFT, TIMEOUT.
  std::span<std::byte> reach(int peer, Place place, std::size_t bytes, Deadline deadline);

 private:
  class Own;
  using Key = std::pair<int, std::uint32_t>;  // rank, number of the block

  const SharedMemory& map(int peer, std::uint32_t block, Deadline deadline);
  void dropStale(int peer);

  Segment& segment_;
  const std::shared_ptr<Own> own_;
  std::map<Key, SharedMemory> mapped_;  // of other ranks
};

}  // namespace unisono::shm

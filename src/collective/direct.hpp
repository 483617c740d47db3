// Direct: data of other ranks that is reached where it is, in an operation.
#pragma once

#include <cstddef>
#include <vector>

#include "transport/shm/arena.hpp"

namespace unisono {

class Direct {
 public:
  explicit Direct(shm::Arena& arena) noexcept : arena_(arena) {}

  /// Waits until rank `peer` has arrived; whether its `bytes` bytes can be reached.
  bool await(int peer, std::size_t bytes) {
    const shm::Place place = arena_.awaitPlace(peer);
    if (place.block == 0) {
      return false;
    }
    where_.resize(static_cast<std::size_t>(arena_.size()));
    where_[static_cast<std::size_t>(peer)] = arena_.reach(peer, place, bytes);
    return true;
  }

  /// What await() has found.
  bool has(int peer) const noexcept {
    return !where_.empty() && where_[static_cast<std::size_t>(peer)] != nullptr;
  }
  std::byte* at(int peer) const noexcept { return where_[static_cast<std::size_t>(peer)]; }

  /// At the end: tells those whose data was read, and waits until nobody reads this rank's. Throws
  /// what ended the group, if something did: who was told of it may have changed or freed its data
  /// while it was read here.
  void leave() {
    if (!where_.empty() || arena_.isReachable()) {
      arena_.leaveAll();
    }
    if (!where_.empty()) {
      arena_.checkAlive();  // after leaveAll(), which orders it after all that was read
    }
    if (arena_.isReachable()) {
      static_cast<void>(arena_.awaitAllLeft());
    }
  }

 private:
  shm::Arena& arena_;
  std::vector<std::byte*> where_;  // by rank; empty while there is none
};

}  // namespace unisono

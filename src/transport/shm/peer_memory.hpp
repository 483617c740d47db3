// PeerMemory: reads what lies in the memory of another rank's process, where the kernel allows it.
//
// One copy by the kernel instead of two through shared memory: what long messages and large blocks
// are worth. Also between ranks of one process: a copy of our own would crash when the peer fails
// and frees what is being read.
//
// Seccomp, Yama, capabilities or a namespace may forbid it, and a number of a process may mean
// another process here: so the first read from a peer is that of a random word, which the peer has
// also put where all can see it. What was forbidden once is not tried again.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "transport/shm/segment.hpp"

namespace unisono::shm {

class PeerMemory {
 public:
  /// UNISONO_CMA=off reads from nobody. `what`, as in "long messages are", is copied instead when
  /// it may not be read: for the log.
  PeerMemory(Segment& segment, std::string_view what);
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  /// Whether the memory of rank `peer` can be read; tried when first asked.
  bool isReadable(int peer) noexcept;

  /// Fills `into` with what is at `address` of rank `peer`, which was found readable. False when
  /// that failed, or the rank has died or withdrawn; then what is there now means nothing.
  [[nodiscard]] bool read(int peer, std::uint64_t address, std::span<std::byte> into) noexcept;

 private:
  enum class Access : std::uint8_t { UNTRIED, GIVEN, DENIED };

  bool tryWord(int peer) noexcept;
  void deny(int peer, int error) noexcept;

  Segment& segment_;
  const std::string_view what_;
  std::vector<Access> access_;  // by rank
  bool noticed_ = false;        // a denial was logged
};

}  // namespace unisono::shm

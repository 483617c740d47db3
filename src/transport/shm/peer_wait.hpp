// PeerWait: how a rank waits for words that its peers write.
//
// First it looks, then it yields, then it sleeps on its door; whoever publishes a word rings the
// doors that are marked. While it sleeps it looks every few milliseconds whether the group was
// aborted, whether a peer died, whether the peer does something else than this rank, and whether
// the time is over; each of those ends the wait, and the group, with its cause.
//
// Thread safety: one thread at a time, the one that drives the group's operations.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "base/wait_policy.hpp"
#include "transport/shm/door.hpp"
#include "transport/shm/segment.hpp"

namespace unisono::shm {

/// What this rank is doing, as far as waiting and its errors need to know.
struct Operation {
  std::uint64_t seq = 0;
  std::uint32_t call = 0;       // hash of what all ranks must agree on
  std::uint32_t signature = 0;  // hash of all calls so far: who was not heard in one is in the next
  std::string_view name = {};   // "all_reduce"
  Milliseconds timeout{};
  std::optional<Deadline> deadline = {};  // set by the first wait that is not over at once
  TimePoint start = {};
};

class PeerWait {
 public:
  /// `describe` turns a rank's Post into text for a person.
  using Describe = std::string (*)(const Post& post);

  PeerWait(Segment& segment, int cores, std::vector<int> globalRanks, Describe describe);

  bool isCrowded() const noexcept { return policy_.isCrowded(); }
  Operation& operation() noexcept { return operation_; }

  /// Returns when `ready()`, which reads words that rank `peer` writes. Throws DistBackendError or
  /// DistTimeoutError, after telling all ranks why.
  template <typename Ready>
  void until(int peer, Ready ready) {
    for (int i = policy_.spins(); i > 0; --i) {
      if (ready()) [[likely]] {
        return;
      }
      cpuRelax();
    }
    if (!policy_.yieldUntil(ready)) {
      sleepUntil(peer, Look{[](void* data) { return (*static_cast<Ready*>(data))(); }, &ready});
    }
  }

  /// Whether `ready()` within the first moment, in which nothing but that is looked at.
  template <typename Ready>
  bool soon(Ready ready) const {
    for (int i = std::min(policy_.spins(), kFirstLooks); i > 0; --i) {
      if (ready()) [[likely]] {
        return true;
      }
      cpuRelax();
    }
    return false;
  }

  /// As until(), but only until `deadline`; whether it is ready. A deadline that passes ends
  /// nothing.
  template <typename Ready>
  bool untilOr(int peer, const Deadline& deadline, Ready ready) {
    return policy_.yieldUntil(ready) ||
           sleepBefore(peer, deadline,
                       Look{[](void* data) { return (*static_cast<Ready*>(data))(); }, &ready});
  }

  /// Stores `value` for peers to see, and wakes those of them that sleep.
  void publish(std::atomic<Position>& word, Position value) noexcept {
    // Sequentially consistent, as is the load of each door: either we see that the peer is about
    // to sleep, or it sees the value before it does.
    word.exchange(value, std::memory_order_seq_cst);
    ringAll();
  }
  void ringAll() noexcept {
    for (int peer = 0; peer < segment_.size(); ++peer) {
      shm::ring(segment_.block(peer).door);
    }
  }

  /// As Segment::fail().
  AbortCause fail(AbortCause cause) noexcept { return segment_.fail(std::move(cause)); }
  /// Throws what ended the group, if something did.
  void checkFailed() {
    if (segment_.header().abort.isSet()) [[unlikely]] {
      throwFailed();
    }
  }
  /// Throws for rank `peer` doing something else than this rank.
  [[noreturn]] void throwMismatch(int peer);
  [[noreturn]] void throwFailed();
  [[noreturn]] void throwCauseHere(const AbortCause& cause);

  /// "rank 3", as the world counts.
  std::string nameOf(int rank) const;
  /// "Waiting for rank 3 (process 77, state T stopped, last called operation 41), rank 5 (…)".
  std::string whoIsMissing() const;

 private:
  static constexpr int kFirstLooks = 100;  // about 2 us

  /// A predicate, without its type.
  struct Look {
    bool (*call)(void*);
    void* data;
    bool operator()() const { return call(data); }
  };
  class Sleeper;

  void sleepUntil(int peer, Look ready);
  bool sleepBefore(int peer, const Deadline& deadline, Look ready);
  void startClock();
  void checkPeers(int peer, bool all);
  void checkProcess(int peer);
  void checkDead(int peer);
  void checkMismatch(int peer);
  std::uint64_t firstMismatch(int peer) const;
  std::vector<int> oddCallers(std::uint64_t seq) const;
  /// The number of the last operation that it has called.
  std::uint64_t lastCall(int rank) const noexcept;
  /// Those who have not called this operation, or are stopped in it.
  std::vector<int> laggards() const;

  Segment& segment_;
  const WaitPolicy policy_;
  const std::vector<int> globalRanks_;
  const Describe describe_;
  Operation operation_;
};

}  // namespace unisono::shm

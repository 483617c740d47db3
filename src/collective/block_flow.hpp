// BlockFlow: how blocks get from those who give them to those who take them, in rounds.
//
// What the blocks are, and which piece of them goes in which round, is up to a Flow: see blocks.cpp
// and deal.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "collective/blocks.hpp"
#include "reduction/copy.hpp"

namespace unisono {

constexpr std::size_t roundUpToLine(std::size_t bytes) noexcept {
  return (bytes + 63) / 64 * 64;
}

/// Blocks that are brought from where they lie, and those that could not be.
class Fetch {
 public:
  explicit Fetch(shm::Arena& arena) noexcept : arena_(arena) {}

  /// Brings the block of rank `peer` from `place`; false when it lies nowhere and comes by slots.
  bool bring(int peer, shm::Place place, Block into) {
    if (place.block == 0) {
      return false;
    }
    states_.resize(static_cast<std::size_t>(arena_.size()));
    State& state = states_[static_cast<std::size_t>(peer)];
    state = State::BROUGHT;
    if (place.block != shm::kOwnMemory) {
      copyBytes(into.data(), arena_.reach(peer, place, into.size()), into.size());
    } else if (!arena_.pull(peer, place.offset, into)) {
      state = State::MISSED;
      missed_ = true;
    }
    return true;
  }

  bool isBySlots(int peer) const noexcept { return is(peer, State::BY_SLOTS); }
  bool isMissed(int peer) const noexcept { return is(peer, State::MISSED); }

  /// At the end: tells those whose data was read, and waits until nobody reads this rank's. False
  /// when some of it must go by slots after all, to this rank or from it. Throws what ended the
  /// group, if something did: who was told of it may have changed its data while it was read here.
  bool leave() {
    if (missed_) {
      arena_.askForSlots();
    }
    if (missed_ || arena_.isPulled()) {
      arena_.leaveAndStay();
    } else if (!states_.empty() || arena_.isReachable()) {
      arena_.leaveAll();
    }
    if (!states_.empty()) {
      arena_.checkAlive();  // after what was published, which orders it after all that was read
    }
    const bool allLeft = !arena_.isReachable() || arena_.awaitAllLeft();
    return !missed_ && (allLeft || !arena_.isPulled());
  }

 private:
  enum class State : std::uint8_t { BY_SLOTS, BROUGHT, MISSED };
  bool is(int peer, State state) const noexcept {
    return (states_.empty() ? State::BY_SLOTS : states_[static_cast<std::size_t>(peer)]) == state;
  }

  shm::Arena& arena_;
  std::vector<State> states_;  // by rank; empty while all come by slots
  bool missed_ = false;
};

/// Moves the pieces of `Flow` in rounds: into this rank's slots, and out of those of `givers`, all
/// but what can be brought from where it lies. What is missed there follows in rounds of its own.
template <typename Flow>
void moveBlocks(shm::Arena& arena, Flow& flow, std::span<const int> givers) {
  const int me = arena.rank();
  const bool isGiver = std::find(givers.begin(), givers.end(), me) != givers.end();
  const bool gives = isGiver && flow.sendLines();
  const std::size_t rounds = flow.rounds();
  Fetch fetch(arena);

  const auto pass = [&](std::size_t first, bool fills, auto takes) {
    for (std::size_t round = 0; round < rounds; ++round) {
      if (fills || (round == 0 && first == 0 && gives && Flow::kHasTable)) {
        arena.awaitRoom(first + round);
        flow.fill(arena.slot(me, round), round, fills);
        arena.arrive(first + round);
      }
      for (const int peer : givers) {
        if (peer != me && (round == 0 || flow.isLeft(peer, round)) && takes(peer, round)) {
          arena.awaitArrival(peer, first + round);
          flow.take(peer, arena.slot(peer, round), round);
        }
      }
      if (round + arena.depth() < rounds) {
        arena.release(first + round);
      }
    }
  };

  if (gives && arena.isReachable() && !Flow::kHasTable) {
    arena.arriveInPlace();
  }
  pass(0, gives && !arena.isReachable(), [&](int peer, std::size_t round) {
    return round == 0 ? !flow.bring(peer, fetch) : fetch.isBySlots(peer);
  });
  if (isGiver) {
    flow.copyOwn();
  }
  if (!fetch.leave()) {
    pass(shm::kAgain, arena.isPulled(),
         [&](int peer, std::size_t) { return fetch.isMissed(peer); });
    arena.leaveAll();
  }
}

}  // namespace unisono

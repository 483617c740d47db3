#include "collective/blocks.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/str.hpp"
#include "collective/shares.hpp"
#include "reduction/copy.hpp"

namespace unisono {
namespace {

constexpr std::size_t kSmallestChunk = 16U << 10U;

std::size_t roundUp(std::size_t bytes) noexcept {
  return (bytes + 63) / 64 * 64;
}

/// A quarter of the block, so that giver and takers work at the same time.
std::size_t shareChunk(std::size_t largest, std::size_t most) noexcept {
  if (largest <= shm::kSmallSlot) {
    return largest;
  }
  return std::clamp(roundUp(largest / 4), std::min(kSmallestChunk, most), most);
}

void copyOwn(Block to, ConstBlock from) {
  // In place: a rank's own block often is where it goes.
  if (!to.empty() && to.data() != from.data()) {
    std::memmove(to.data(), from.data(), to.size());
  }
}

template <typename Blocks>
std::size_t largestOf(const Blocks& blocks) noexcept {
  std::size_t largest = 0;
  for (const auto& block : blocks) {
    largest = std::max(largest, block.size());
  }
  return largest;
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
  const bool gives = std::find(givers.begin(), givers.end(), me) != givers.end();
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
  if (gives) {
    flow.copyOwn();
  }
  if (!fetch.leave()) {
    pass(shm::kAgain, arena.isPulled(),
         [&](int peer, std::size_t) { return fetch.isMissed(peer); });
    arena.leaveAll();
  }
}

/// One block for all.
class Share {
 public:
  static constexpr bool kHasTable = false;

  Share(shm::Arena& arena, ConstBlock mine, std::span<const Block> take)
      : arena_(arena), mine_(mine), take_(take) {
    const std::size_t largest = std::max(largestOf(take), mine.size());
    chunk_ = std::max<std::size_t>(shareChunk(largest, arena.mostChunk()), 1);
    rounds_ = std::max<std::size_t>(roundsFor(largest, chunk_), 1);
    arena.useSlots(chunk_, rounds_);
  }

  std::size_t rounds() const noexcept { return rounds_; }
  bool isLeft(int peer, std::size_t round) const noexcept {
    return block(peer).size() > round * chunk_;
  }
  void fill(std::byte* slot, std::size_t round, bool /*withData*/) {
    const Range part = roundOf(mine_.size(), chunk_, round);
    copyBytes(slot, mine_.data() + part.begin, part.size);
  }
  bool bring(int peer, Fetch& fetch) {
    return fetch.bring(peer, arena_.awaitPlace(peer), block(peer));
  }
  void take(int peer, const std::byte* slot, std::size_t round) {
    const Range part = roundOf(block(peer).size(), chunk_, round);
    copyBytes(block(peer).data() + part.begin, slot, part.size);
  }
  void copyOwn() { unisono::copyOwn(block(arena_.rank()), mine_); }

 private:
  const Block& block(int peer) const noexcept { return take_[static_cast<std::size_t>(peer)]; }

  shm::Arena& arena_;
  const ConstBlock mine_;
  const std::span<const Block> take_;
  std::size_t chunk_ = 0;
  std::size_t rounds_ = 0;
};

/// A block of its own for each. The slot of a round begins with the sizes of all blocks, so that a
/// taker who expects another size finds out before it reads; then follow the pieces, or where they
/// can be pulled from.
class Deal {
 public:
  static constexpr bool kHasTable = true;

  Deal(shm::Arena& arena, std::span<const ConstBlock> give, std::span<const Block> take)
      : arena_(arena), give_(give), take_(take) {
    const auto ranks = static_cast<std::size_t>(arena.size());
    table_ = roundUp(ranks * sizeof(std::uint64_t));
    // The same on all ranks, who know only the sizes of their own blocks.
    piece_ = pieceFor(arena.mostChunk() - table_, ranks);
    const std::size_t largest = std::max(largestOf(give), largestOf(take));
    rounds_ = std::max<std::size_t>(roundsFor(largest, piece_), 1);
    // Always the ring: whether small slots would do, a rank cannot know of the others.
    arena_.useSlots(arena_.mostChunk(), 2);
  }

  std::size_t rounds() const noexcept { return rounds_; }
  bool isLeft(int peer, std::size_t round) const noexcept {
    return block(peer).size() > round * piece_;
  }

  void fill(std::byte* slot, std::size_t round, bool withData) {
    for (std::size_t peer = 0; peer < give_.size(); ++peer) {
      const std::uint64_t size = give_[peer].size();
      write(slot, peer, size);
      if (static_cast<int>(peer) == arena_.rank()) {
        continue;
      }
      const Range part = roundOf(size, piece_, round);
      if (withData) {
        copyBytes(slot + table_ + peer * piece_, give_[peer].data() + part.begin, part.size);
      } else {
        write(slot + table_, peer, reinterpret_cast<std::uint64_t>(give_[peer].data()));
      }
    }
  }

  bool bring(int peer, Fetch& fetch) {
    arena_.awaitArrival(peer, 0);
    const std::byte* slot = arena_.slot(peer, 0);
    checkSize(peer, slot);
    shm::Place place = arena_.awaitPlace(peer);
    if (place.block == shm::kOwnMemory) {
      place.offset = read(slot + table_, me());
    } else if (place.block != 0) {
      for (std::size_t other = 0; other < me(); ++other) {  // one after the other
        place.offset += read(slot, other);
      }
    }
    return fetch.bring(peer, place, block(peer));
  }

  void take(int peer, const std::byte* slot, std::size_t round) {
    checkSize(peer, slot);
    const Range part = roundOf(block(peer).size(), piece_, round);
    copyBytes(block(peer).data() + part.begin, slot + table_ + me() * piece_, part.size);
  }
  void copyOwn() { unisono::copyOwn(take_[me()], give_[me()]); }

 private:
  std::size_t me() const noexcept { return static_cast<std::size_t>(arena_.rank()); }
  const Block& block(int peer) const noexcept { return take_[static_cast<std::size_t>(peer)]; }
  static void write(std::byte* table, std::size_t place, std::uint64_t value) noexcept {
    std::memcpy(table + place * sizeof value, &value, sizeof value);
  }
  static std::uint64_t read(const std::byte* table, std::size_t place) noexcept {
    std::uint64_t value = 0;
    std::memcpy(&value, table + place * sizeof value, sizeof value);
    return value;
  }

  void checkSize(int peer, const std::byte* slot) {
    const std::uint64_t size = read(slot, me());
    const std::size_t expected = block(peer).size();
    if (size != expected) [[unlikely]] {
      shm::PeerWait& wait = arena_.wait();
      wait.throwCauseHere(wait.fail({.reason = Reason::MISMATCH,
                                     .culprits = {peer},
                                     .reporter = arena_.rank(),
                                     .seq = arena_.seq(),
                                     .text = str("rank ", peer, " gives ", size, " bytes to rank ",
                                                 me(), ", which expects ", expected)}));
    }
  }

  shm::Arena& arena_;
  const std::span<const ConstBlock> give_;
  const std::span<const Block> take_;
  std::size_t table_ = 0;
  std::size_t piece_ = 0;
  std::size_t rounds_ = 0;
};

}  // namespace

void shareBlocks(shm::Arena& arena, ConstBlock mine, std::span<const Block> take,
                 std::span<const int> givers) {
  Share share(arena, mine, take);
  moveBlocks(arena, share, givers);
}

void dealBlocks(shm::Arena& arena, std::span<const ConstBlock> give, std::span<const Block> take,
                std::span<const int> givers) {
  Deal deal(arena, give, take);
  moveBlocks(arena, deal, givers);
}

void shareLines(shm::Arena& arena, ConstBlock mine, Block out, std::span<const int> givers) {
  constexpr std::size_t kPayload = shm::LlLine::kPayload;
  const std::size_t size = out.size() / givers.size();
  const std::size_t lines = std::max<std::size_t>(roundsFor(size, kPayload), 1);
  for (std::size_t at = 0; at < givers.size(); ++at) {
    if (givers[at] == arena.rank()) {
      for (std::size_t line = 0; line < lines; ++line) {
        const Range part = roundOf(size, kPayload, line);
        arena.sendLine(line, mine.data() + part.begin, part.size, line + 1 == lines);
      }
      copyOwn(out.subspan(at * size, size), mine);
    }
  }
  for (std::size_t at = 0; at < givers.size(); ++at) {
    for (std::size_t line = 0; givers[at] != arena.rank() && line < lines; ++line) {
      const Range part = roundOf(size, kPayload, line);
      const std::byte* const from = arena.awaitLine(givers[at], line);
      if (part.size > 0) {
        std::memcpy(out.data() + at * size + part.begin, from, part.size);
      }
    }
  }
}

}  // namespace unisono

#include "collective/blocks.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/str.hpp"
#include "collective/direct.hpp"
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

}  // namespace

void shareBlocks(shm::Arena& arena, ConstBlock mine, std::span<const Block> take,
                 std::span<const int> givers) {
  const int me = arena.rank();
  const std::size_t largest = std::max(largestOf(take), mine.size());
  const std::size_t chunk = std::max<std::size_t>(shareChunk(largest, arena.mostChunk()), 1);
  const std::size_t rounds = std::max<std::size_t>(roundsFor(largest, chunk), 1);
  const bool gives = std::find(givers.begin(), givers.end(), me) != givers.end();
  const bool bySlots = gives && !arena.isReachable();
  Direct direct(arena);
  if (gives && arena.isReachable()) {
    arena.arriveInPlace();
  }
  arena.useSlots(chunk, rounds);
  for (std::size_t round = 0; round < rounds; ++round) {
    if (bySlots) {
      const Range part = roundOf(mine.size(), chunk, round);
      arena.awaitRoom(round);
      copyBytes(arena.slot(me, round), mine.data() + part.begin, part.size);
      arena.arrive(round);
    }
    for (const int peer : givers) {
      const Block& block = take[static_cast<std::size_t>(peer)];
      if (peer == me || (round > 0 && (block.size() <= round * chunk || direct.has(peer)))) {
        continue;
      }
      if (round == 0 && direct.await(peer, block.size())) {
        copyBytes(block.data(), direct.at(peer), block.size());
        continue;
      }
      const Range part = roundOf(block.size(), chunk, round);
      arena.awaitArrival(peer, round);
      copyBytes(block.data() + part.begin, arena.slot(peer, round), part.size);
    }
    if (round + arena.depth() < rounds) {
      arena.release(round);
    }
  }
  if (gives) {
    copyOwn(take[static_cast<std::size_t>(me)], mine);
  }
  direct.leave();
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

namespace {

/// One exchange of blocks of their own. The slot of round 0 begins with the sizes of all blocks,
/// so that a taker who expects another size finds out before it reads.
class Deal {
 public:
  Deal(shm::Arena& arena, std::span<const ConstBlock> give, std::span<const Block> take,
       std::span<const int> givers)
      : arena_(arena), give_(give), take_(take), givers_(givers), direct_(arena) {
    const auto ranks = static_cast<std::size_t>(arena.size());
    table_ = roundUp(ranks * sizeof(std::uint64_t));
    // The same on all ranks, who know only the sizes of their own blocks.
    piece_ = (arena.mostChunk() - table_) / ranks / 64 * 64;
    const std::size_t largest = std::max(largestOf(give), largestOf(take));
    rounds_ = std::max<std::size_t>(roundsFor(largest, piece_), 1);
  }

  void run() {
    const int me = arena_.rank();
    const bool gives = std::find(givers_.begin(), givers_.end(), me) != givers_.end();
    // Always the ring: whether small slots would do, a rank cannot know of the others.
    arena_.useSlots(arena_.mostChunk(), 2);
    for (std::size_t round = 0; round < rounds_; ++round) {
      if (gives && (round == 0 || !arena_.isReachable())) {
        fill(round);
      }
      for (const int peer : givers_) {
        if (peer != me) {
          read(peer, round);
        }
      }
      if (round + arena_.depth() < rounds_) {
        arena_.release(round);
      }
    }
    if (gives) {
      copyOwn(take_[static_cast<std::size_t>(me)], give_[static_cast<std::size_t>(me)]);
    }
    direct_.leave();
  }

 private:
  void fill(std::size_t round) {
    arena_.awaitRoom(round);
    std::byte* slot = arena_.slot(arena_.rank(), round);
    for (std::size_t peer = 0; peer < give_.size(); ++peer) {
      const std::uint64_t size = give_[peer].size();
      std::memcpy(slot + peer * sizeof size, &size, sizeof size);
      const Range part = roundOf(size, piece_, round);
      if (static_cast<int>(peer) != arena_.rank() && !arena_.isReachable()) {
        copyBytes(slot + table_ + peer * piece_, give_[peer].data() + part.begin, part.size);
      }
    }
    arena_.arrive(round);
  }

  void read(int peer, std::size_t round) {
    const Block& block = take_[static_cast<std::size_t>(peer)];
    if (round > 0 && (block.size() <= round * piece_ || direct_.has(peer))) {
      return;
    }
    arena_.awaitArrival(peer, round);
    const auto me = static_cast<std::size_t>(arena_.rank());
    const std::byte* slot = arena_.slot(peer, round);
    std::uint64_t size = 0;
    std::memcpy(&size, slot + me * sizeof size, sizeof size);
    if (size != block.size()) {
      shm::PeerWait& wait = arena_.wait();
      wait.throwCauseHere(wait.fail({.reason = Reason::MISMATCH,
                                     .culprits = {peer},
                                     .reporter = arena_.rank(),
                                     .seq = arena_.seq(),
                                     .text = str("rank ", peer, " gives ", size, " bytes to rank ",
                                                 me, ", which expects ", block.size())}));
    }
    if (round == 0 && readInPlace(peer, slot, block)) {
      return;
    }
    const Range part = roundOf(block.size(), piece_, round);
    copyBytes(block.data() + part.begin, slot + table_ + me * piece_, part.size);
  }

  /// Whole, if the peer's blocks lie where this rank can reach them, one after the other.
  bool readInPlace(int peer, const std::byte* table, const Block& block) {
    std::uint64_t before = 0;
    for (int other = 0; other < arena_.rank(); ++other) {
      std::uint64_t size = 0;
      std::memcpy(&size, table + static_cast<std::size_t>(other) * sizeof size, sizeof size);
      before += size;
    }
    if (!direct_.await(peer, before + block.size())) {
      return false;
    }
    copyBytes(block.data(), direct_.at(peer) + before, block.size());
    return true;
  }

  shm::Arena& arena_;
  const std::span<const ConstBlock> give_;
  const std::span<const Block> take_;
  const std::span<const int> givers_;
  Direct direct_;
  std::size_t table_ = 0;
  std::size_t piece_ = 0;
  std::size_t rounds_ = 0;
};

}  // namespace

void dealBlocks(shm::Arena& arena, std::span<const ConstBlock> give, std::span<const Block> take,
                std::span<const int> givers) {
  Deal(arena, give, take, givers).run();
}

}  // namespace unisono

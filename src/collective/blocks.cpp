#include "collective/blocks.hpp"

#include <algorithm>
#include <cstring>

#include "collective/block_flow.hpp"
#include "collective/shares.hpp"

namespace unisono {
namespace {

constexpr std::size_t kSmallestShare = 16U << 10U;

/// A quarter of the block, so that giver and takers work at the same time.
std::size_t shareChunk(std::size_t largest, std::size_t most) noexcept {
  if (largest <= shm::kSmallSlot) {
    return largest;
  }
  return std::clamp(roundUpToLine(largest / 4), std::min(kSmallestShare, most), most);
}

/// One block for all.
class Share {
 public:
  static constexpr bool kHasTable = false;

  Share(shm::Arena& arena, ConstBlock mine, std::span<const Block> take)
      : arena_(arena), mine_(mine), take_(take) {
    const std::size_t largest = std::max(largestBlock(take), mine.size());
    chunk_ = std::max<std::size_t>(shareChunk(largest, arena.mostChunk()), 1);
    rounds_ = std::max<std::size_t>(roundsFor(largest, chunk_), 1);
    arena.useSlots(chunk_, rounds_);
  }

  /// Sends nothing that way; whether something goes by slots.
  static bool sendLines() noexcept { return true; }
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
  void copyOwn() { copyOwnBlock(block(arena_.rank()), mine_); }

 private:
  const Block& block(int peer) const noexcept { return take_[static_cast<std::size_t>(peer)]; }

  shm::Arena& arena_;
  const ConstBlock mine_;
  const std::span<const Block> take_;
  std::size_t chunk_ = 0;
  std::size_t rounds_ = 0;
};

/// `blockOf(i)` is where the block of givers[i] goes.
template <typename BlockOf>
void exchangeLines(shm::Arena& arena, ConstBlock mine, std::span<const int> givers,
                   BlockOf blockOf) {
  constexpr std::size_t kPayload = shm::LlLine::kPayload;
  const auto linesFor = [](std::size_t bytes) {
    return std::max<std::size_t>(roundsFor(bytes, kPayload), 1);
  };
  for (std::size_t at = 0; at < givers.size(); ++at) {
    if (givers[at] == arena.rank()) {
      const std::size_t lines = linesFor(mine.size());
      for (std::size_t line = 0; line < lines; ++line) {
        const Range part = roundOf(mine.size(), kPayload, line);
        arena.sendLine(line, mine.data() + part.begin, part.size, line + 1 == lines);
      }
      copyOwnBlock(blockOf(at), mine);
    }
  }
  for (std::size_t at = 0; at < givers.size(); ++at) {
    if (givers[at] == arena.rank()) {
      continue;
    }
    const Block into = blockOf(at);
    for (std::size_t line = 0; line < linesFor(into.size()); ++line) {
      const Range part = roundOf(into.size(), kPayload, line);
      const std::byte* const from = arena.awaitLine(givers[at], line);
      if (part.size > 0) {
        std::memcpy(into.data() + part.begin, from, part.size);
      }
    }
  }
}

}  // namespace

void shareBlocks(shm::Arena& arena, ConstBlock mine, std::span<const Block> take,
                 std::span<const int> givers) {
  Share share(arena, mine, take);
  moveBlocks(arena, share, givers);
}

void shareLines(shm::Arena& arena, ConstBlock mine, Block out, std::span<const int> givers) {
  const std::size_t size = out.size() / givers.size();
  exchangeLines(arena, mine, givers, [&](std::size_t at) { return out.subspan(at * size, size); });
}

void shareLines(shm::Arena& arena, ConstBlock mine, std::span<const Block> take,
                std::span<const int> givers) {
  exchangeLines(arena, mine, givers,
                [&](std::size_t at) { return take[static_cast<std::size_t>(givers[at])]; });
}

}  // namespace unisono

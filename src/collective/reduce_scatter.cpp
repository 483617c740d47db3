#include "collective/reduce_scatter.hpp"

#include <algorithm>

#include "collective/direct.hpp"
#include "collective/shares.hpp"
#include "collective/sources.hpp"
#include "reduction/copy.hpp"

namespace unisono {

void reduceScatterSlots(shm::Arena& arena, std::span<const ConstBlock> give, Block out,
                        const Reduction& reduction) {
  const auto me = static_cast<std::size_t>(arena.rank());
  const std::size_t width = reduction.elementSize();
  const std::size_t most = pieceFor(arena.mostChunk(), give.size());
  const std::size_t largest = largestBlock(give);
  const std::size_t piece =
      std::clamp<std::size_t>((largest + 63) / 64 * 64, std::min<std::size_t>(64, most), most);
  const std::size_t rounds = std::max<std::size_t>(roundsFor(largest, piece), 1);
  arena.useSlots(piece * give.size(), rounds);
  std::size_t before = 0;  // bytes of each rank's blocks in front of the one that is reduced here
  for (std::size_t peer = 0; peer < me; ++peer) {
    before += give[peer].size();
  }
  Direct direct(arena);

  const auto copyIn = [&](std::size_t round) {
    arena.awaitRoom(round);
    for (std::size_t peer = 0; peer < give.size(); ++peer) {
      const Range part = roundOf(give[peer].size(), piece, round);
      if (peer != me) {
        copyBytes(arena.slot(arena.rank(), round) + peer * piece, give[peer].data() + part.begin,
                  part.size);
      }
    }
    arena.arrive(round);
  };
  Sources sources(arena.size());
  if (arena.isReachable()) {
    arena.arriveInPlace();
  } else {
    copyIn(0);
  }
  for (std::size_t round = 0; round < rounds; ++round) {
    if (round + 1 < rounds && !arena.isReachable()) {
      copyIn(round + 1);
    }
    const Range part = roundOf(out.size(), piece, round);
    for (int peer = 0; peer < arena.size(); ++peer) {
      if (peer == arena.rank()) {
        sources.set(peer, give[me].data() + part.begin);
      } else if (round == 0 ? direct.await(peer, before + out.size()) : direct.has(peer)) {
        sources.set(peer, direct.at(peer) + before + part.begin);
      } else {
        arena.awaitArrival(peer, round);
        sources.set(peer, arena.slot(peer, round) + me * piece);
      }
    }
    if (part.size > 0) {
      reduction.reduce(out.data() + part.begin, sources.span(), part.size / width);
    }
    if (round + arena.depth() < rounds) {
      arena.release(round);
    }
  }
  direct.leave();
}

std::size_t mostOfReduceScatterLines(int ranks, std::size_t elementSize) noexcept {
  return shm::kLlLines / static_cast<std::size_t>(ranks) *
         wholeElements(shm::LlLine::kPayload, elementSize);
}

void reduceScatterLines(shm::Arena& arena, std::span<const ConstBlock> give, Block out,
                        const Reduction& reduction) {
  const auto me = static_cast<std::size_t>(arena.rank());
  const std::size_t width = reduction.elementSize();
  const std::size_t payload = wholeElements(shm::LlLine::kPayload, width);
  // At least one: also who gets nothing hears everybody.
  const std::size_t lines = std::max<std::size_t>(roundsFor(largestBlock(give), payload), 1);
  const std::size_t lastPeer = me + 1 == give.size() ? me - 1 : give.size() - 1;
  for (std::size_t peer = 0; peer < give.size(); ++peer) {
    for (std::size_t line = 0; peer != me && line < lines; ++line) {
      const Range part = roundOf(give[peer].size(), payload, line);
      arena.sendLine(peer * lines + line, give[peer].data() + part.begin, part.size,
                     peer == lastPeer && line + 1 == lines);
    }
  }
  Sources sources(arena.size());
  for (std::size_t line = 0; line < lines; ++line) {
    const Range part = roundOf(out.size(), payload, line);
    for (int peer = 0; peer < arena.size(); ++peer) {
      sources.set(peer, peer == arena.rank() ? give[me].data() + part.begin
                                             : arena.awaitLine(peer, me * lines + line));
    }
    if (part.size > 0) {
      reduction.reduce(out.data() + part.begin, sources.span(), elementsOf(part.size, width));
    }
  }
}

}  // namespace unisono

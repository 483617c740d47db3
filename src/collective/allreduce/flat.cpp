#include <algorithm>

#include "collective/allreduce/algorithms.hpp"
#include "collective/shares.hpp"
#include "collective/sources.hpp"
#include "reduction/copy.hpp"

namespace unisono {
namespace {

constexpr std::size_t kSmallestChunk = 16U << 10U;

/// Half of the vector, so that the second half is copied in while the first is read; not so large
/// that the slots leave the cache, nor so small that waiting outweighs copying.
std::size_t chunkFor(std::size_t bytes, std::size_t most) noexcept {
  if (bytes <= shm::kSmallSlot) {
    return bytes;
  }
  const std::size_t half = (bytes / 2 + 63) / 64 * 64;
  return std::clamp(half, std::min(kSmallestChunk, most), most);
}

}  // namespace

void allreduceFlat(shm::Arena& arena, const AllreduceData& data, const Reduction& reduction) {
  const std::size_t width = reduction.elementSize();
  const std::size_t bytes = data.elements * width;
  const std::size_t chunk = chunkFor(bytes, arena.mostChunk());
  const std::size_t rounds = roundsFor(bytes, chunk);
  arena.useSlots(chunk, rounds);

  const auto copyIn = [&](std::size_t round) {
    const Range part = roundOf(bytes, chunk, round);
    arena.awaitRoom(round);
    copyBytes(arena.slot(arena.rank(), round), data.in + part.begin, part.size);
    arena.arrive(round);
  };
  const auto releaseRead = [&](std::size_t round) {
    if (round + arena.depth() < rounds) {
      arena.release(round);
    }
  };
  Sources sources(arena.size());
  copyIn(0);
  for (std::size_t round = 0; round < rounds; ++round) {
    if (round + 1 < rounds) {
      copyIn(round + 1);  // one ahead: the others need not wait for us to have read
    }
    if (!data.isTaker(arena.rank())) {
      releaseRead(round);
      continue;
    }
    const Range part = roundOf(bytes, chunk, round);
    for (int peer = 0; peer < arena.size(); ++peer) {
      if (peer == arena.rank()) {
        sources.set(peer, data.in + part.begin);
      } else {
        arena.awaitArrival(peer, round);
        sources.set(peer, arena.slot(peer, round));
      }
    }
    reduction.reduce(data.out + part.begin, sources.span(), part.size / width);
    releaseRead(round);
  }
}

}  // namespace unisono

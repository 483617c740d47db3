#include "collective/direct.hpp"

#include <algorithm>

#include "collective/allreduce/algorithms.hpp"
#include "collective/shares.hpp"
#include "collective/sources.hpp"

namespace unisono {
namespace {

/// Between two looks at whether the group still lives.
constexpr std::size_t kPiece = std::size_t{64} << 10U;
/// From so many bytes for each rank on, no page is written by two.
constexpr std::size_t kWholePages = std::size_t{64} << 10U;
constexpr std::size_t kPage = 4096;

/// The part of a vector that `rank` reduces for all.
Range partOf(std::size_t bytes, int ranks, int rank, std::size_t width) noexcept {
  const bool pages = bytes >= static_cast<std::size_t>(ranks) * kWholePages;
  return shareOf(bytes, ranks, rank, pages ? kPage : width);
}

}  // namespace

bool allreduceDirect(shm::Arena& arena, const AllreduceData& data, const Reduction& reduction) {
  const std::size_t width = reduction.elementSize();
  const std::size_t bytes = data.elements * width;
  arena.arriveInPlace();
  std::vector<std::byte*> vectors(static_cast<std::size_t>(arena.size()));
  for (int peer = 0; peer < arena.size(); ++peer) {
    std::byte*& vector = vectors[static_cast<std::size_t>(peer)];
    if (peer == arena.rank()) {
      vector = data.out;
      continue;
    }
    const shm::Place place = arena.awaitPlace(peer);
    if (place.block == 0) {
      return false;
    }
    vector = arena.reach(peer, place, bytes);
  }
  const Range mine = partOf(bytes, arena.size(), arena.rank(), width);
  std::vector<std::byte*> into(vectors.size());
  Sources sources(arena.size());
  for (std::size_t at = mine.begin; at < mine.end(); at += kPiece) {
    for (std::size_t peer = 0; peer < vectors.size(); ++peer) {
      into[peer] = vectors[peer] + at;
      sources.set(static_cast<int>(peer), into[peer]);
    }
    arena.checkAlive();  // others' memory is written to
    reduction.reduceToAll(into, sources.span(), std::min(kPiece, mine.end() - at) / width);
  }
  arena.publishResult(0);
  for (int peer = 0; peer < arena.size(); ++peer) {
    if (peer != arena.rank()) {
      arena.awaitResult(peer, 0);
    }
  }
  arena.checkAlive();  // who gives up may change its data while others still read it
  return true;
}

}  // namespace unisono

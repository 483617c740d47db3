#include <cstring>

#include "collective/allreduce/algorithms.hpp"
#include "collective/sources.hpp"

namespace unisono {

void allreduceLast(shm::Arena& arena, const AllreduceData& data, const Reduction& reduction) {
  const std::size_t bytes = data.elements * reduction.elementSize();
  arena.useSlots(bytes, 1);
  std::memcpy(arena.slot(arena.rank(), 0), data.in, bytes);
  if (arena.gather()) {
    Sources sources(arena.size());
    for (int peer = 0; peer < arena.size(); ++peer) {
      sources.set(peer, arena.slot(peer, 0));
    }
    reduction.reduce(arena.resultSlot(), sources.span(), data.elements);
    arena.publishGathered();
  } else {
    arena.awaitGathered();
  }
  if (data.isTaker(arena.rank())) {
    std::memcpy(data.out, arena.resultSlot(), bytes);
  }
}

}  // namespace unisono

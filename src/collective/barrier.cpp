#include "collective/barrier.hpp"

namespace unisono {

void barrierArena(shm::Arena& arena) {
  if (arena.isCrowded()) {
    // One counter: every rank needs a core once, not once for each of the others.
    if (arena.gather()) {
      arena.publishGathered();
    } else {
      arena.awaitGathered();
    }
    return;
  }
  arena.arrive(0);
  for (int turn = 1; turn < arena.size(); ++turn) {
    arena.awaitArrival((arena.rank() + turn) % arena.size(), 0);
  }
}

}  // namespace unisono

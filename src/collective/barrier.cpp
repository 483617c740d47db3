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
  // A line without data: one flight.
  arena.sendLine(0, nullptr, 0, true);
  for (int turn = 1; turn < arena.size(); ++turn) {
    static_cast<void>(arena.awaitLine((arena.rank() + turn) % arena.size(), 0));
  }
}

}  // namespace unisono

// Barrier between the ranks of one host.
#pragma once

#include "transport/shm/arena.hpp"

namespace unisono {

/// Returns when everybody has come.
void barrierArena(shm::Arena& arena);

}  // namespace unisono

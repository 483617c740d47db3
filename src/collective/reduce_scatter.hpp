// Reduce-scatter between the ranks of one host.
#pragma once

#include <span>

#include "collective/blocks.hpp"
#include "reduction/reduction.hpp"

namespace unisono {

/// Rank r gets into `out` the reduction of everybody's block `give[r]`. Blocks may have different
/// sizes, the same on all ranks. `out` is `give[rank]`, or overlaps no block.
void reduceScatterSlots(shm::Arena& arena, std::span<const ConstBlock> give, Block out,
                        const Reduction& reduction);

}  // namespace unisono

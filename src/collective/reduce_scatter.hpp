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

/// The same by lines, in which data and flag travel together: for a few bytes. What each rank
/// writes for each of the others has lines of its own.
void reduceScatterLines(shm::Arena& arena, std::span<const ConstBlock> give, Block out,
                        const Reduction& reduction);
/// The most bytes of a block that it can do.
std::size_t mostOfReduceScatterLines(int ranks, std::size_t elementSize) noexcept;

}  // namespace unisono

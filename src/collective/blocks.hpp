// Blocks: the collectives in which data is moved but not changed.
//
// They differ only in who reads what from whom:
//
//   broadcast   everybody reads the root's block         share,  one giver
//   all_gather  everybody reads everybody's block        share,  all give
//   gather      the root reads everybody's block         share,  all give, one takes
//   scatter     everybody reads its own of the root's    deal,   one giver
//   all_to_all  everybody reads its own of everybody's   deal,   all give
//
// Blocks may have different sizes; giver and taker must mean the same. Data goes through the
// giver's slots in rounds.
#pragma once

#include <cstddef>
#include <span>

#include "collective/block.hpp"
#include "transport/shm/arena.hpp"

namespace unisono {

/// Every giver gives one block, the same to all takers. `mine` is empty for who gives nothing;
/// `take[p]` is where the block of rank p goes, empty when it is not taken. A rank's own block is
/// copied too. `givers`: whom this rank hears, also when the block is empty.
void shareBlocks(shm::Arena& arena, ConstBlock mine, std::span<const Block> take,
                 std::span<const int> givers);

/// The same by lines, in which data and flag travel together: for a few bytes, of which all ranks
/// know how many. `out` has room for a block of each of `givers`, in their order. At most
/// mostOfLl(1) bytes each.
void shareLines(shm::Arena& arena, ConstBlock mine, Block out, std::span<const int> givers);
/// The same with blocks of any sizes, as for shareBlocks().
void shareLines(shm::Arena& arena, ConstBlock mine, std::span<const Block> take,
                std::span<const int> givers);

/// Every giver gives a block of its own to each taker: `give[p]` to rank p. Throws MISMATCH on all
/// ranks when rank p gives another number of bytes than is taken. Blocks of up to `mostByLines`
/// bytes go by lines, all others by slots; that is the same on all ranks, and at most
/// mostOfDealtLines().
void dealBlocks(shm::Arena& arena, std::span<const ConstBlock> give, std::span<const Block> take,
                std::span<const int> givers, std::size_t mostByLines = 0);
/// The most bytes of a block that lines of one rank have room for when it gives one to each of
/// `ranks` ranks.
std::size_t mostOfDealtLines(int ranks) noexcept;

}  // namespace unisono

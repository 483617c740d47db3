// Algorithms: the ways to do a collective between ranks that share nothing but messages.
//
// P is the number of ranks, p the largest power of two that is no more, N the bytes of the data, B
// those of a block. A rank's cost: bytes and messages that it sends; and flights: how many messages
// one after the other somebody has to wait for. Sizes that P does not divide are cut into shares
// that are nearly equal (shares.hpp). All ranks take the same algorithm, unless it says otherwise.
//
// Every algorithm gives all ranks the same bits, and the same in every run: an element is reduced
// on one rank, or by the same steps in the same order on several.
//
// None counts on messages being kept until somebody asks for them.
#pragma once

#include <cstddef>
#include <span>

#include "collective/block.hpp"
#include "collective/links/stepwise.hpp"
#include "transport/communicator.hpp"

namespace unisono::links {

/// Recursive doubling: ranks 1, 2, 4, … apart exchange all they have, and reduce it, the lower
/// one's first; so elements are reduced in the order of the ranks. Bytes log2(p) N, messages
/// log2(p), flights log2(p). Where P is not p, P - p ranks have their even neighbour stand for
/// them: they send N in one message and nothing else, the neighbour sends N in one more, and there
/// are up to two flights more.
void allreduceDoubling(Communicator& comm, Block data, const Stepwise& reduction);

/// Everybody gets all contributions, as by allgatherBruck(), and reduces them in the order of the
/// ranks, rounding once. Bytes (P - 1) N, messages ceil(log2(P)), flights ceil(log2(P)), which is
/// the least there can be for any P; needs room for P N.
void allreduceGathered(Communicator& comm, Block data, const Stepwise& reduction);

/// Recursive halving, then doubling: ranks 1, 2, 4, … apart exchange halves of what they still work
/// on, the first time of everything; who has reduced a share completely passes it back the same
/// way. Elements are reduced in the order of the ranks. Bytes 2 N (p - 1)/p, messages 2 log2(p),
/// flights 2 log2(p); where P is not p as with recursive doubling.
void allreduceHalving(Communicator& comm, Block data, const Stepwise& reduction);

/// A ring: shares travel to the next rank, which adds its own; complete, they go around once more.
/// An element is reduced in the order of the ring, beginning with the rank whose share it is. Bytes
/// 2 N (P - 1)/P, which is the least there can be, messages 2 (P - 1), flights 2 (P - 1).
void allreduceRing(Communicator& comm, Block data, const Stepwise& reduction);

/// A binomial tree: everybody reduces what comes from below and sends it on. `out` is used on the
/// root only, where it is `in` or does not overlap it. Bytes N, messages 1, but for the root;
/// flights log2(p).
void reduceBinomial(Communicator& comm, ConstBlock in, Block out, int root,
                    const Stepwise& reduction);

/// reduceScatterRing(), then everybody sends its share to the root. Bytes N (P - 1)/P, and N/P more
/// but for the root; messages P - 1, and 1; flights P.
void reduceRing(Communicator& comm, ConstBlock in, Block out, int root, const Stepwise& reduction);

/// A binomial tree: everybody passes the data on to all below it, at once. The root sends it
/// ceil(log2(P)) times, all ranks together P - 1 times; flights log2(p).
void broadcastBinomial(Communicator& comm, Block data, int root);

/// The root gives everybody a share; then shares travel along the chain that begins with the root.
/// Bytes 2 N (P - 1)/P on the root, N (P - 1)/P in the middle, none on the last; messages 2 (P -
/// 1), P - 1, none; flights P - 1.
void broadcastScattered(Communicator& comm, Block data, int root);

/// `take[p]` becomes what rank p gives, of whatever size; `mine` may be where it goes.
/// Bruck: ranks 1, 2, 4, … apart pass on all that they have. Bytes (P - 1) B, messages
/// ceil(log2(P)), flights ceil(log2(P)); everything is copied once more than needed.
void allgatherBruck(Communicator& comm, ConstBlock mine, std::span<const Block> take);

/// A ring: blocks travel from rank to rank. Bytes (P - 1) B, messages P - 1, flights P - 1.
void allgatherRing(Communicator& comm, ConstBlock mine, std::span<const Block> take);

/// Rank r gets into `out` the reduction of everybody's block `give[r]`. Blocks may have different
/// sizes, the same on all ranks. `out` is `give[rank]`, or overlaps no block.
/// Direct: blocks go to their owners, all at once, who reduce them in the order of the ranks and
/// round once. Bytes (P - 1) B, messages P - 1, flights 1; needs room for (P - 1) B.
void reduceScatterDirect(Communicator& comm, std::span<const ConstBlock> give, Block out,
                         const Stepwise& reduction);

/// Pairwise: the same to one owner after the other, the next rank first, so that nobody is sent to
/// by two; in rounds, as many as keep what is held back within `mostHeld` bytes. Bytes (P - 1) B;
/// messages and flights P - 1 a round.
void reduceScatterPairwise(Communicator& comm, std::span<const ConstBlock> give, Block out,
                           const Stepwise& reduction, std::size_t mostHeld);
void reduceScatterPairwise(Communicator& comm, std::span<const ConstBlock> give, Block out,
                           const Stepwise& reduction);

/// A ring: blocks travel to their owners, and every rank on the way adds its own. Bytes (P - 1) B,
/// messages P - 1, flights P - 1; holds two blocks. An element is reduced in the order of the ring,
/// its owner last, and half types are rounded in every step.
void reduceScatterRing(Communicator& comm, std::span<const ConstBlock> give, Block out,
                       const Stepwise& reduction);

/// Everybody sends its block to the root, where `take[p]` becomes that of rank p. Bytes B, messages
/// 1, but for the root; flights 1.
void gatherDirect(Communicator& comm, ConstBlock mine, std::span<const Block> take, int root);

/// The root sends everybody a block of its own, `give[p]` to rank p. Bytes (P - 1) B and messages
/// P - 1 on the root only; flights 1.
void scatterDirect(Communicator& comm, std::span<const ConstBlock> give, Block out, int root);

/// Everybody gives everybody a block: `give[p]` to rank p, `take[p]` from it. Some ranks may take
/// the one and some the other: no rank knows all sizes. All at once: bytes (P - 1) B, messages
/// P - 1, flights 1.
void alltoallDirect(Communicator& comm, std::span<const ConstBlock> give,
                    std::span<const Block> take);

/// One after the other, the next rank first, so that nobody is sent to by two. Bytes (P - 1) B,
/// messages P - 1, flights P - 1.
void alltoallPairwise(Communicator& comm, std::span<const ConstBlock> give,
                      std::span<const Block> take);

/// Dissemination: who has heard a rank 1, 2, 4, … back has heard all. Bytes 0, messages
/// ceil(log2(P)), flights ceil(log2(P)).
void barrierDissemination(Communicator& comm);

}  // namespace unisono::links

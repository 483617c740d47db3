// Sparse all_reduce between the ranks of a host.
#include <algorithm>
#include <vector>

#include "backend/native/executor.hpp"
#include "backend/native/sparse_exchange.hpp"

namespace unisono {

/// An operation of its own: the blocks of all ranks, `sizes` long, one after the other to `all`.
void Executor::gatherBlocks(const CollectiveArgs& what, ConstBlock mine, std::byte* all,
                            std::span<const std::size_t> sizes) {
  std::vector<Block> take;
  for (const std::size_t size : sizes) {
    take.emplace_back(all, size);
    all += size;
  }
  const std::size_t most = *std::max_element(sizes.begin(), sizes.end());
  begin(what, {.block = mine, .pulled = pulls(Movement::ALL_GATHER, most)});
  shareBlocks(arena_, mine, take, everybody_);
  arena_.end(true);
}

void Executor::allreduceSparse(CollectiveArgs& args) {
  sumSparseOfAll(
      args, ranks(), scratch_,
      {.gather = [this](const auto&... given) { gatherBlocks(given...); },
       .refuse = [this](const AbortCause& fault) { arena_.wait().throwCauseHere(fault); }});
}

}  // namespace unisono

#include <vector>

#include "collective/links/algorithms.hpp"
#include "collective/links/patterns.hpp"

namespace unisono::links {

void reduceRing(Communicator& comm, ConstBlock in, Block out, int root, const Stepwise& reduction) {
  const bool isRoot = comm.rank() == root;
  const Shares<ConstBlock> shares(in, comm.size(), reduction.elementSize());
  std::vector<ConstBlock> give;
  for (int rank = 0; rank < comm.size(); ++rank) {
    give.push_back(shares[rank]);
  }
  const Shares<Block> results(isRoot ? out : Block(), comm.size(), reduction.elementSize());
  const Block mine = isRoot ? results[root] : comm.scratch(shares[comm.rank()].size());
  reduceScatterRing(comm, give, mine, reduction);

  std::vector<Block> take;
  for (int rank = 0; rank < comm.size(); ++rank) {
    take.push_back(results[rank]);
  }
  gatherDirect(comm, mine, take, root);
}

}  // namespace unisono::links

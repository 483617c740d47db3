#include <vector>

#include "collective/links/algorithms.hpp"
#include "collective/links/patterns.hpp"

namespace unisono::links {

void broadcastBinomial(Communicator& comm, Block data, int root) {
  const Tree tree{comm.rank(), comm.size(), root};
  if (!tree.isRoot()) {
    comm.receive({.rank = tree.parent(), .block = data});
  }
  std::vector<SendTo> below;
  for (int distance = 1; tree.hasChild(distance); distance *= 2) {
    below.push_back({.rank = tree.rankAt(tree.place() + distance), .block = data});
  }
  // Who has most below it comes first.
  const std::vector<SendTo> largestFirst(below.rbegin(), below.rend());
  if (!largestFirst.empty()) {
    comm.transfer(largestFirst, {});
  }
}

}  // namespace unisono::links

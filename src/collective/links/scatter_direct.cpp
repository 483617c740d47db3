#include <vector>

#include "collective/links/algorithms.hpp"

namespace unisono::links {

void scatterDirect(Communicator& comm, std::span<const ConstBlock> give, Block out, int root) {
  if (comm.rank() != root) {
    comm.receive({.rank = root, .block = out});
    return;
  }
  std::vector<SendTo> sent;
  for (int peer = 0; peer < comm.size(); ++peer) {
    if (peer != root) {
      sent.push_back({.rank = peer, .block = give[static_cast<std::size_t>(peer)]});
    }
  }
  if (!sent.empty()) {
    comm.transfer(sent, {});
  }
  copyOwnBlock(out, give[static_cast<std::size_t>(root)]);
}

}  // namespace unisono::links

#include <vector>

#include "collective/links/algorithms.hpp"

namespace unisono::links {

void gatherDirect(Communicator& comm, ConstBlock mine, std::span<const Block> take, int root) {
  if (comm.rank() != root) {
    comm.send({.rank = root, .block = mine});
    return;
  }
  std::vector<RecvFrom> in;
  for (int peer = 0; peer < comm.size(); ++peer) {
    if (peer != root) {
      in.push_back({.rank = peer, .block = take[static_cast<std::size_t>(peer)]});
    }
  }
  copyOwnBlock(take[static_cast<std::size_t>(root)], mine);
  if (!in.empty()) {
    comm.transfer({}, in);
  }
}

}  // namespace unisono::links

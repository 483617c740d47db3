#include <vector>

#include "collective/links/algorithms.hpp"
#include "collective/links/patterns.hpp"

namespace unisono::links {

void broadcastScattered(Communicator& comm, Block data, int root) {
  const int ranks = comm.size();
  const Ring ring{comm.rank(), ranks};
  // Places along the chain: the root is 0, and its share the first.
  const Ring chain{ring.after(-root), ranks};
  const Shares<Block> shares(data, ranks, 1);
  const bool isFirst = chain.rank == 0;
  const bool isLast = chain.rank == ranks - 1;
  if (isFirst) {
    std::vector<SendTo> out;
    for (int place = 1; place < ranks; ++place) {
      out.push_back({.rank = (root + place) % ranks, .block = shares[place]});
    }
    comm.transfer(out, {});
  } else {
    comm.receive({.rank = root, .block = shares[chain.rank]});
  }
  for (int step = 0; step < ranks - 1; ++step) {
    const SendTo out{.rank = ring.next(), .block = shares[chain.after(-step)]};
    const RecvFrom in{.rank = ring.previous(), .block = shares[chain.after(-step - 1)]};
    comm.transfer({&out, isLast ? 0U : 1U}, {&in, isFirst ? 0U : 1U});
  }
}

}  // namespace unisono::links

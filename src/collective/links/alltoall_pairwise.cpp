// A block for everybody; to one after the other, or to all at once.
#include <vector>

#include "collective/links/algorithms.hpp"
#include "collective/links/patterns.hpp"

namespace unisono::links {

void alltoallDirect(Communicator& comm, std::span<const ConstBlock> give,
                    std::span<const Block> take) {
  const Ring ring{comm.rank(), comm.size()};
  std::vector<SendTo> sent;
  std::vector<RecvFrom> received;
  for (int distance = 1; distance < comm.size(); ++distance) {
    const int to = ring.after(distance);
    const int from = ring.after(-distance);
    sent.push_back({.rank = to, .block = give[static_cast<std::size_t>(to)]});
    received.push_back({.rank = from, .block = take[static_cast<std::size_t>(from)]});
  }
  if (!sent.empty()) {
    comm.transfer(sent, received);
  }
  const auto me = static_cast<std::size_t>(comm.rank());
  copyOwnBlock(take[me], give[me]);
}

void alltoallPairwise(Communicator& comm, std::span<const ConstBlock> give,
                      std::span<const Block> take) {
  const Ring ring{comm.rank(), comm.size()};
  for (int distance = 1; distance < comm.size(); ++distance) {
    const int to = ring.after(distance);
    const int from = ring.after(-distance);
    comm.exchange({.rank = to, .block = give[static_cast<std::size_t>(to)]},
                  {.rank = from, .block = take[static_cast<std::size_t>(from)]});
  }
  const auto me = static_cast<std::size_t>(comm.rank());
  copyOwnBlock(take[me], give[me]);
}

}  // namespace unisono::links

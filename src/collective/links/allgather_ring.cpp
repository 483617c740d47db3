#include "collective/links/algorithms.hpp"
#include "collective/links/patterns.hpp"

namespace unisono::links {

void allgatherRing(Communicator& comm, ConstBlock mine, std::span<const Block> take) {
  const Ring ring{comm.rank(), comm.size()};
  const auto from = [&](int distance) {
    return take[static_cast<std::size_t>(ring.after(distance))];
  };
  copyOwnBlock(from(0), mine);
  for (int step = 0; step < comm.size() - 1; ++step) {
    comm.exchange({.rank = ring.next(), .block = from(-step)},
                  {.rank = ring.previous(), .block = from(-step - 1)});
  }
}

}  // namespace unisono::links

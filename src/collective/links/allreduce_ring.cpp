#include "collective/links/algorithms.hpp"
#include "collective/links/patterns.hpp"

namespace unisono::links {

/// Shares are not cut further: a transfer sends and reduces at the same time already, and waits for
/// both, so that smaller pieces would add flights and overlap nothing.
void allreduceRing(Communicator& comm, Block data, const Stepwise& reduction) {
  const Ring ring{comm.rank(), comm.size()};
  const Shares<Block> shares(data, comm.size(), reduction.elementSize());
  const int steps = comm.size() - 1;
  for (int step = 0; step < steps; ++step) {
    comm.exchange({.rank = ring.next(), .block = shares[ring.after(-step)]},
                  {.rank = ring.previous(),
                   .block = shares[ring.after(-step - 1)],
                   .into = RecvFrom::Into::BEFORE,
                   .reduction = &reduction.step()});
  }
  reduction.finish(shares[ring.next()]);
  for (int step = 0; step < steps; ++step) {
    comm.exchange({.rank = ring.next(), .block = shares[ring.after(1 - step)]},
                  {.rank = ring.previous(), .block = shares[ring.after(-step)]});
  }
}

}  // namespace unisono::links

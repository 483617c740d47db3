#include <utility>

#include "collective/links/algorithms.hpp"
#include "collective/links/patterns.hpp"
#include "reduction/copy.hpp"

namespace unisono::links {

void reduceScatterRing(Communicator& comm, std::span<const ConstBlock> give, Block out,
                       const Stepwise& reduction) {
  const Ring ring{comm.rank(), comm.size()};
  const int steps = comm.size() - 1;
  const auto given = [&](int distance) {
    return give[static_cast<std::size_t>(ring.after(distance))];
  };
  const std::size_t largest = steps > 1 ? largestBlock(give) : 0;
  Block next = comm.scratch(largest);
  Block spare = comm.scratch(largest);
  ConstBlock sent = given(-1);
  for (int step = 0; step < steps; ++step) {
    const ConstBlock own = given(-2 - step);
    const bool isLast = step + 1 == steps;  // what comes is this rank's
    const Block sum = isLast ? out : next.first(own.size());
    if (isLast) {
      copyOwnBlock(out, own);
    } else {
      copyBytes(sum.data(), own.data(), own.size());
    }
    comm.exchange({.rank = ring.next(), .block = sent}, {.rank = ring.previous(),
                                                         .block = sum,
                                                         .into = RecvFrom::Into::BEFORE,
                                                         .reduction = &reduction.step()});
    sent = sum;
    std::swap(next, spare);
  }
  if (steps == 0) {
    copyOwnBlock(out, given(0));
  }
  reduction.finish(out);
}

}  // namespace unisono::links

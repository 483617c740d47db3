#include <algorithm>
#include <vector>

#include "collective/links/algorithms.hpp"
#include "collective/links/patterns.hpp"
#include "reduction/copy.hpp"

namespace unisono::links {

/// In `all` the own contribution comes first, then those of the next ranks around the ring, as in
/// allgatherBruck(); there they stay, and are reduced where they lie.
void allreduceGathered(Communicator& comm, Block data, const Stepwise& reduction) {
  const int ranks = comm.size();
  const Ring ring{comm.rank(), ranks};
  const Block all = comm.scratch(data.size() * static_cast<std::size_t>(ranks));
  const auto part = [&](int first, int end) {
    return all.subspan(static_cast<std::size_t>(first) * data.size(),
                       static_cast<std::size_t>(end - first) * data.size());
  };
  copyBytes(all.data(), data.data(), data.size());
  for (int have = 1; have < ranks; have *= 2) {
    const int end = std::min(2 * have, ranks);
    comm.exchange({.rank = ring.after(-have), .block = part(0, end - have)},
                  {.rank = ring.after(have), .block = part(have, end)});
  }
  std::vector<const std::byte*> sources(static_cast<std::size_t>(ranks));
  for (int distance = 0; distance < ranks; ++distance) {
    sources[static_cast<std::size_t>(ring.after(distance))] = part(distance, distance + 1).data();
  }
  reduction.whole().reduce(data.data(), sources, data.size() / reduction.elementSize());
}

}  // namespace unisono::links

#include <vector>

#include "collective/links/algorithms.hpp"
#include "collective/links/patterns.hpp"
#include "reduction/copy.hpp"

namespace unisono::links {

/// In `all` the own block comes first, then those of the next ranks around the ring: so what is
/// passed on always lies in one piece.
void allgatherBruck(Communicator& comm, ConstBlock mine, std::span<const Block> take) {
  const int ranks = comm.size();
  const Ring ring{comm.rank(), ranks};
  const auto from = [&](int distance) -> const Block& {
    return take[static_cast<std::size_t>(ring.after(distance))];
  };
  copyOwnBlock(from(0), mine);
  std::vector<std::size_t> begin{0};  // of the block of the rank so far ahead
  for (int distance = 0; distance < ranks; ++distance) {
    begin.push_back(begin.back() + from(distance).size());
  }
  const Block all = comm.scratch(begin.back());
  const auto part = [&](int first, int end) {
    const std::size_t at = begin[static_cast<std::size_t>(first)];
    return all.subspan(at, begin[static_cast<std::size_t>(end)] - at);
  };
  copyBytes(all.data(), from(0).data(), from(0).size());
  for (int have = 1; have < ranks; have *= 2) {
    const int end = std::min(2 * have, ranks);
    comm.exchange({.rank = ring.after(-have), .block = part(0, end - have)},
                  {.rank = ring.after(have), .block = part(have, end)});
  }
  for (int distance = 1; distance < ranks; ++distance) {
    const Block block = part(distance, distance + 1);
    copyBytes(from(distance).data(), block.data(), block.size());
  }
}

}  // namespace unisono::links

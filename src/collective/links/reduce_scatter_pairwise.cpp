// Blocks go straight to who reduces them; one after the other, or all at once.
#include <algorithm>
#include <vector>

#include "collective/links/algorithms.hpp"
#include "collective/links/patterns.hpp"

namespace unisono::links {
namespace {

constexpr std::size_t kMostHeld = 64U << 20U;

/// What has come of each rank's block, and what this rank gives itself.
class Held {
 public:
  Held(Communicator& comm, std::size_t piece)
      : memory_(comm.scratch(piece * static_cast<std::size_t>(comm.size() - 1))),
        piece_(piece),
        sources_(static_cast<std::size_t>(comm.size())) {}

  /// Where the piece of the rank `distance` behind goes.
  Block place(int distance, std::size_t size) const noexcept {
    return memory_.subspan(static_cast<std::size_t>(distance - 1) * piece_, size);
  }
  void set(int rank, const std::byte* where) noexcept {
    sources_[static_cast<std::size_t>(rank)] = where;
  }
  void reduceInto(Block out, const Reduction& reduction) const {
    if (!out.empty()) {
      reduction.reduce(out.data(), sources_, out.size() / reduction.elementSize());
    }
  }

 private:
  Block memory_;
  std::size_t piece_;
  std::vector<const std::byte*> sources_;  // in the order of the ranks
};

}  // namespace

void reduceScatterDirect(Communicator& comm, std::span<const ConstBlock> give, Block out,
                         const Stepwise& reduction) {
  const Ring ring{comm.rank(), comm.size()};
  Held held(comm, out.size());
  std::vector<SendTo> sent;
  std::vector<RecvFrom> received;
  for (int distance = 1; distance < comm.size(); ++distance) {
    const int to = ring.after(distance);
    const int from = ring.after(-distance);
    sent.push_back({.rank = to, .block = give[static_cast<std::size_t>(to)]});
    received.push_back({.rank = from, .block = held.place(distance, out.size())});
    held.set(from, received.back().block.data());
  }
  held.set(comm.rank(), give[static_cast<std::size_t>(comm.rank())].data());
  if (!sent.empty()) {
    comm.transfer(sent, received);
  }
  held.reduceInto(out, reduction.whole());
}

void reduceScatterPairwise(Communicator& comm, std::span<const ConstBlock> give, Block out,
                           const Stepwise& reduction, std::size_t mostHeld) {
  const Ring ring{comm.rank(), comm.size()};
  const auto me = static_cast<std::size_t>(comm.rank());
  // The same on all ranks, whose sizes are the same.
  const std::size_t most = std::max<std::size_t>(pieceFor(mostHeld, give.size()), 64);
  const std::size_t piece = std::min(most, largestBlock(give));
  const std::size_t rounds =
      piece == 0 ? 1 : std::max<std::size_t>(roundsFor(largestBlock(give), piece), 1);
  Held held(comm, piece);
  for (std::size_t round = 0; round < rounds; ++round) {
    const Range mine = roundOf(out.size(), piece, round);
    for (int distance = 1; distance < comm.size(); ++distance) {
      const int from = ring.after(-distance);
      const ConstBlock block = give[static_cast<std::size_t>(ring.after(distance))];
      const Range theirs = roundOf(block.size(), piece, round);
      const Block place = held.place(distance, mine.size);
      comm.exchange(
          {.rank = ring.after(distance), .block = block.subspan(theirs.begin, theirs.size)},
          {.rank = from, .block = place});
      held.set(from, place.data());
    }
    held.set(comm.rank(), give[me].data() + mine.begin);
    held.reduceInto(out.subspan(mine.begin, mine.size), reduction.whole());
  }
}

void reduceScatterPairwise(Communicator& comm, std::span<const ConstBlock> give, Block out,
                           const Stepwise& reduction) {
  reduceScatterPairwise(comm, give, out, reduction, kMostHeld);
}

}  // namespace unisono::links

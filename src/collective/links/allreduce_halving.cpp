#include <vector>

#include "collective/links/algorithms.hpp"
#include "collective/links/guests.hpp"

namespace unisono::links {
namespace {

/// An exchange with the rank along one edge of the cube: of two halves of a range of shares each
/// has one.
struct Turn {
  int peer;
  Block mine;
  Block theirs;
};

std::vector<Turn> turnsOf(const Cube& cube, Block data, std::size_t width) {
  const Shares<Block> shares(data, cube.corners(), width);
  std::vector<Turn> turns;
  int from = 0;
  int to = cube.corners();
  for (int edge = 1; edge < cube.corners(); edge *= 2) {
    const int middle = (from + to) / 2;
    const Block low = shares.between(from, middle);
    const Block high = shares.between(middle, to);
    const bool isHigh = (cube.corner() & edge) != 0;
    turns.push_back({.peer = cube.rankAt(cube.corner() ^ edge),
                     .mine = isHigh ? high : low,
                     .theirs = isHigh ? low : high});
    (isHigh ? from : to) = middle;
  }
  return turns;
}

}  // namespace

void allreduceHalving(Communicator& comm, Block data, const Stepwise& reduction) {
  const Cube cube{comm.rank(), comm.size()};
  withGuests(comm, cube, data, reduction, [&] {
    const std::vector<Turn> turns = turnsOf(cube, data, reduction.elementSize());
    for (const Turn& turn : turns) {
      const bool lower = turn.peer < comm.rank();
      comm.exchange({.rank = turn.peer, .block = turn.theirs},
                    {.rank = turn.peer,
                     .block = turn.mine,
                     .into = lower ? RecvFrom::Into::BEFORE : RecvFrom::Into::AFTER,
                     .reduction = &reduction.step()});
    }
    reduction.finish(turns.empty() ? data : turns.back().mine);
    for (auto turn = turns.rbegin(); turn != turns.rend(); ++turn) {
      comm.exchange({.rank = turn->peer, .block = turn->mine},
                    {.rank = turn->peer, .block = turn->theirs});
    }
  });
}

}  // namespace unisono::links

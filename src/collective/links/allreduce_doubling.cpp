#include "collective/links/algorithms.hpp"
#include "collective/links/guests.hpp"

namespace unisono::links {

void allreduceDoubling(Communicator& comm, Block data, const Stepwise& reduction) {
  const Cube cube{comm.rank(), comm.size()};
  withGuests(comm, cube, data, reduction, [&] {
    // What is sent must stay as it is until it has gone: it cannot be reduced into meanwhile.
    const Block theirs = comm.scratch(cube.corners() > 1 ? data.size() : 0);
    for (int edge = 1; edge < cube.corners(); edge *= 2) {
      const int peer = cube.rankAt(cube.corner() ^ edge);
      comm.exchange({.rank = peer, .block = data}, {.rank = peer, .block = theirs});
      const bool lower = peer < comm.rank();
      const std::byte* const sources[] = {lower ? theirs.data() : data.data(),
                                          lower ? data.data() : theirs.data()};
      reduction.step().reduce(data.data(), sources, data.size() / reduction.elementSize());
    }
    reduction.finish(data);
  });
}

}  // namespace unisono::links

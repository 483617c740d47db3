#include "collective/links/algorithms.hpp"
#include "collective/links/patterns.hpp"

namespace unisono::links {

void barrierDissemination(Communicator& comm) {
  const Ring ring{comm.rank(), comm.size()};
  for (int distance = 1; distance < comm.size(); distance *= 2) {
    comm.exchange({.rank = ring.after(distance), .block = {}},
                  {.rank = ring.after(-distance), .block = {}});
  }
}

}  // namespace unisono::links

// Guests: how ranks that are no power of two take part in algorithms on a cube.
#pragma once

#include "collective/links/patterns.hpp"
#include "collective/links/stepwise.hpp"
#include "transport/communicator.hpp"

namespace unisono::links {

/// Runs `body` on the ranks that have a corner, with what their guests have added to `data`; then
/// passes the result, which it leaves there, to the guests.
template <typename Body>
void withGuests(Communicator& comm, const Cube& cube, Block data, const Stepwise& reduction,
                Body body) {
  if (cube.isGuest()) {
    comm.send({.rank = cube.partner(), .block = data});
    comm.receive({.rank = cube.partner(), .block = data});
    return;
  }
  if (cube.isPaired()) {
    comm.receive({.rank = cube.partner(),
                  .block = data,
                  .into = RecvFrom::Into::AFTER,
                  .reduction = &reduction.step()});
  }
  body();
  if (cube.isPaired()) {
    comm.send({.rank = cube.partner(), .block = data});
  }
}

}  // namespace unisono::links

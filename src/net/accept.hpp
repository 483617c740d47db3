// Accepting: what accept4() can say, sorted by what a server has to do about it.
//
// A server that runs out of descriptors must not spin on a listening socket that stays readable:
// it sheds the waiting connection with a ReserveFd and pauses accepting for a moment.
//
// Nothing here throws or blocks; all of it runs on event loops.
#pragma once

#include <cstdint>

#include "base/fd.hpp"
#include "net/address.hpp"

namespace unisono {

enum class AcceptStatus : std::uint8_t {
  GOT,        // `fd` is a new connection, non-blocking and close-on-exec
  NOTHING,    // nobody waits: stop until the listener is readable again
  TRANSIENT,  // that connection failed before it was accepted: go on with the next
  EXHAUSTED,  // no descriptors or memory, whether somebody waits or not: shed, and pause
  FAILED,     // the listening socket itself is no good
};

struct AcceptResult {
  AcceptStatus status = AcceptStatus::NOTHING;
  UniqueFd fd = {};
  SocketAddress peer = {};  // of GOT
  int error = 0;            // errno of all but GOT and NOTHING
};

AcceptResult acceptOne(int listenFd) noexcept;

/// A descriptor kept for the moment when there are no others.
class ReserveFd {
 public:
  ReserveFd() noexcept { refill(); }

  /// Accepts one waiting connection and closes it at once, so that its client learns of the
  /// refusal. False when that failed too, or nobody waits.
  bool shed(int listenFd) noexcept;

 private:
  void refill() noexcept;
  UniqueFd fd_;
};

/// Raises this process's soft limit on descriptors to its hard limit.
void raiseDescriptorLimit() noexcept;

}  // namespace unisono

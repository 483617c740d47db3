// Connecting: to a host that may have several addresses, some dead, and may not be up yet.
//
//   Socket socket = connectTo("node0", 29500, Deadline::after(timeout), timeout);
//
// In a round all addresses of the host race, families interleaved: the next attempt starts
// 250 ms after the last or as soon as one fails, and the first to succeed wins. Rounds are repeated
// with jittered pauses (10 ms to 1 s) until the deadline; names are resolved anew in each.
//
// A caller whose connection is good only after a handshake repeats rounds itself:
//
//   ConnectHistory history({host, port}, timeout);
//   … retryUntil([&] { ConnectRound round = tryConnectOnce(history, deadline); … });
//
// Errors: DistNetworkError; its sentence lists every address with its last failure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/error.hpp"

#include "base/clock.hpp"
#include "net/address.hpp"
#include "net/socket.hpp"

namespace unisono {

/// What connecting to one peer has come to, over all rounds. Used by one thread.
class ConnectHistory {
 public:
  /// `timeout` is what the user gave, for the text.
  ConnectHistory(HostPort target, Milliseconds timeout);

  const HostPort& target() const noexcept { return target_; }

  /// Notes that `address` was no good, also after connecting: "Connection refused
  /// (ECONNREFUSED)", "the peer closed during the handshake".
  void addFailure(const SocketAddress& address, std::string why);
  /// Notes that the host had no addresses.
  void addResolveFailure(std::string why);

  /// The deadline passed. PEER_UNREACHABLE, or CONFIG when the host was never resolved.
  DistNetworkError timedOut() const;
  /// Nothing that failed is worth another try.
  DistNetworkError failedForGood() const;

  /// "127.0.0.1:29500: Connection refused (ECONNREFUSED), 12 attempts; [::1]:29500: …".
  std::string describe() const;

 private:
  struct Tried {
    SocketAddress address;
    std::string why;
    int attempts;
  };
  DistNetworkError error(std::string sentence) const;

  const HostPort target_;
  const Milliseconds timeout_;
  const TimePoint start_;
  std::vector<Tried> tried_;
  std::string resolveProblem_;
  int resolveFailures_ = 0;
};

struct ConnectRound {
  Socket socket;               // valid() when one address answered
  bool worthRetrying = false;  // otherwise: whether any failure may pass
  bool refused = false;        // otherwise: whether every address in reach said that nobody listens
};

/// One round; every failure goes into `history`. Ends by the deadline, or after 10 s so that a
/// host which moved is resolved anew; a deadline that has passed still gives it 10 ms.
ConnectRound tryConnectOnce(ConnectHistory& history, Deadline deadline);

/// Rounds until one succeeds. `timeout` is what the user gave, for the text.
Socket connectTo(const std::string& host, std::uint16_t port, Deadline deadline,
                 Milliseconds timeout);

namespace detail {
/// The addresses with the families taking turns, starting with the first one's.
std::vector<SocketAddress> interleaved(const std::vector<SocketAddress>& addresses);

/// One race over `addresses`, whoever they belong to.
ConnectRound raceOnce(ConnectHistory& history, const std::vector<SocketAddress>& addresses,
                      Deadline deadline);

/// Whether the socket met itself: a closed local port from the ephemeral range can be picked as
/// source of the very connection to it, which then succeeds.
bool isSelfConnected(int fd) noexcept;
}  // namespace detail

}  // namespace unisono

// Listener: the listening sockets of a server, one per local address, all with one port.
//
// Binding is narrow: a server listens where its host name leads, not on every interface.
//
// Thread safety: constant after construction; accepting (net/accept.hpp) is the caller's.
//
// Errors: DistNetworkError. RESOURCE when the port is taken (naming the process if it can be
// seen) or forbidden, CONFIG when the host is not this one or cannot be resolved.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "net/address.hpp"

namespace unisono {

class Listener {
 public:
  /// Listens on `port` (0: one that is free) of the addresses that `bind` says:
  ///   "auto"      every local address of `host`; localhost is 127.0.0.1 and ::1
  ///   "any"       all interfaces, IPv6 and IPv4; so does a host or bind of 0.0.0.0 or ::
  ///   an address  that one
  static Listener open(const std::string& host, std::uint16_t port, const std::string& bind,
                       Deadline deadline);

  /// Takes over a bound socket, listening or not. On failure `fd` stays open and the caller's:
  /// DistStoreError (CONFIG) when it is bound to another port than `expectedPort` (0: any),
  /// DistNetworkError when it is no bound TCP socket.
  static Listener adopt(int fd, std::uint16_t expectedPort);

  /// Throws what adopt() does when `fd` is not a socket for it, and leaves it as it is.
  static void requireBound(int fd, std::uint16_t expectedPort);

  std::uint16_t port() const noexcept { return addresses_.front().port(); }
  const std::vector<SocketAddress>& addresses() const noexcept { return addresses_; }
  /// The sockets, in the order of addresses().
  std::vector<int> fds() const;
  /// Whether only processes of this host can connect.
  bool isLoopbackOnly() const noexcept;

 private:
  explicit Listener(std::vector<UniqueFd> sockets);

  std::vector<UniqueFd> sockets_;
  std::vector<SocketAddress> addresses_;
};

}  // namespace unisono

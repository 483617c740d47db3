#include "net/listener.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <limits>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>
#include <utility>

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "net/port_owner.hpp"
#include "net/resolve.hpp"

namespace unisono {
namespace {

constexpr int kBacklog = std::numeric_limits<int>::max();  // the kernel cuts it to somaxconn
constexpr int kPortPicks = 16;  // a picked port may be taken on the other addresses
constexpr const char* kWhat = "The server socket has failed to listen on any local network address";

enum class Stack : std::uint8_t { OWN_FAMILY, DUAL };

/// One address that could not be had.
struct Failure {
  SocketAddress address;
  int error;
};

/// A socket listening on `address`, or errno in `*error`.
std::optional<UniqueFd> listenOn(const SocketAddress& address, Stack stack, int* error) {
  UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  const int onlyV6 = stack == Stack::OWN_FAMILY ? 1 : 0;
  const bool good =
      fd.valid() && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      (address.family() != AF_INET6 ||
       ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &onlyV6, sizeof onlyV6) == 0) &&
      ::bind(fd.get(), address.raw(), address.size()) == 0 && ::listen(fd.get(), kBacklog) == 0;
  if (!good) {
    *error = errno;
    return std::nullopt;
  }
  return fd;
}

/// Whether the address just is not one of this host.
bool isAbsent(int error) noexcept {
  return error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
}

[[noreturn]] void throwFailure(const std::string& host, std::uint16_t port,
                               const std::vector<Failure>& failures) {
  // The most telling one: an address that is not ours only matters if there is no other trouble.
  const auto telling = std::find_if(failures.begin(), failures.end(),
                                    [](const Failure& f) { return !isAbsent(f.error); });
  const Failure& worst = telling == failures.end() ? failures.front() : *telling;
  std::vector<std::string> parts;
  for (const Failure& failure : failures) {
    parts.push_back(str(failure.address.text(), ": ", errnoDetail(failure.error)));
  }
  ErrorFacts facts{.reason = Reason::RESOURCE,
                   .what = str(kWhat, ". port: ", port, "; ", join(parts, "; ")),
                   .op = "listen",
                   .host = HostPort{host, port}.text()};
  if (worst.error == EADDRINUSE) {
    const std::string owner = portOwner(worst.address);
    facts.what += str("; address already in use", owner.empty() ? "" : ": ", owner);
    facts.hint = owner.empty() ? "use port 0, or look for who has it: ss -tanp"
                               : "use port 0, or stop that process";
  } else if (worst.error == EACCES) {
    facts.hint = "use a port from 1024 up, or give this process CAP_NET_BIND_SERVICE";
  } else if (isAbsent(worst.error)) {
    facts.reason = Reason::CONFIG;
    facts.what += str("; '", host, "' is not an address of this host");
    facts.hint =
        "start the server on that host, or set UNISONO_STORE_BIND=any to listen on all interfaces";
  }
  if (facts.hint.empty()) {
    facts.hint = "check the limits of this process (ulimit -n), or use another port";
  }
  throw DistNetworkError(std::move(facts));
}

std::vector<UniqueFd> listenEverywhere(const std::string& host, std::uint16_t port) {
  std::vector<Failure> failures;
  const std::pair<int, Stack> tries[] = {{AF_INET6, Stack::DUAL}, {AF_INET, Stack::OWN_FAMILY}};
  for (const auto& [family, stack] : tries) {
    const SocketAddress address = SocketAddress::wildcard(family, port);
    int error = 0;
    if (auto fd = listenOn(address, stack, &error)) {
      std::vector<UniqueFd> sockets;
      sockets.push_back(std::move(*fd));
      return sockets;
    }
    failures.push_back({address, error});
  }
  throwFailure(host, port, failures);
}

/// Listens on all of `addresses` that are ours; empty when one is taken or none is ours.
std::vector<UniqueFd> listenOnAll(const std::vector<SocketAddress>& addresses, std::uint16_t port,
                                  std::vector<Failure>& failures) {
  std::vector<UniqueFd> sockets;
  failures.clear();
  for (const SocketAddress& address : addresses) {
    const SocketAddress wanted = address.withPort(port);
    int error = 0;
    if (auto fd = listenOn(wanted, Stack::OWN_FAMILY, &error)) {
      port = SocketAddress::localOf(fd->get()).port();  // the others follow the one picked
      sockets.push_back(std::move(*fd));
      continue;
    }
    failures.push_back({wanted, error});
    if (!isAbsent(error)) {
      return {};
    }
  }
  return sockets;
}

std::vector<UniqueFd> listenNarrowly(const std::string& host, std::uint16_t port,
                                     const std::vector<SocketAddress>& addresses) {
  std::vector<Failure> failures;
  for (int pick = 0; pick < (port == 0 ? kPortPicks : 1); ++pick) {
    std::vector<UniqueFd> sockets = listenOnAll(addresses, port, failures);
    if (!sockets.empty()) {
      return sockets;
    }
  }
  throwFailure(host, port, failures);
}

[[noreturn]] void refuseFd(int fd, std::string_view why) {
  throw DistNetworkError({.reason = Reason::CONFIG,
                          .what = str("cannot listen on fd ", fd, ": ", why),
                          .hint = "pass a TCP socket that is bound, and not closed yet",
                          .op = "listen"});
}

}  // namespace

Listener::Listener(std::vector<UniqueFd> sockets) : sockets_(std::move(sockets)) {
  for (const UniqueFd& socket : sockets_) {
    addresses_.push_back(SocketAddress::localOf(socket.get()));
  }
}

Listener Listener::open(const std::string& host, std::uint16_t port, const std::string& bind,
                        Deadline deadline) {
  if (bind == "any") {
    return Listener(listenEverywhere(host, port));
  }
  const std::string& where = bind == "auto" ? host : bind;
  const Result<std::vector<SocketAddress>> addresses = resolve(where, port, deadline);
  if (!addresses.isOk()) {
    throw DistNetworkError({.reason = Reason::CONFIG,
                            .what = str(kWhat, ". port: ", port, "; the name '", where,
                                        "' could not be resolved: ", addresses.failure().text()),
                            .hint = "use an IP address of this host, or fix the name service",
                            .op = "listen",
                            .host = HostPort{host, port}.text()});
  }
  const bool everywhere = std::any_of(addresses.value().begin(), addresses.value().end(),
                                      [](const SocketAddress& a) { return a.isWildcard(); });
  return Listener(everywhere ? listenEverywhere(host, port)
                             : listenNarrowly(where, port, addresses.value()));
}

void Listener::requireBound(int fd, std::uint16_t expectedPort) {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    refuseFd(fd, errnoDetail(errno));
  }
  const SocketAddress address = SocketAddress::localOf(fd);
  if (!address.isInternet() || type != SOCK_STREAM) {
    refuseFd(fd, "it is not a TCP socket");
  }
  if (expectedPort != 0 && address.port() != expectedPort) {
    throw DistStoreError(
        {.reason = Reason::CONFIG,
         .what = str("listen fd ", fd, " is bound to port ", address.port(),
                     ", expected to be bound to port ", expectedPort),
         .hint = "pass the port the socket is bound to, or 0 to take it from the socket",
         .op = "listen"});
  }
  // An unbound socket would listen on all interfaces, which nobody asked for.
  if (address.port() == 0) {
    refuseFd(fd, "it is not bound");
  }
}

Listener Listener::adopt(int fd, std::uint16_t expectedPort) {
  requireBound(fd, expectedPort);
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
      ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || ::listen(fd, kBacklog) != 0) {
    refuseFd(fd, errnoDetail(errno));
  }
  std::vector<UniqueFd> sockets;
  sockets.emplace_back(fd);
  return Listener(std::move(sockets));
}

std::vector<int> Listener::fds() const {
  std::vector<int> numbers;
  for (const UniqueFd& socket : sockets_) {
    numbers.push_back(socket.get());
  }
  return numbers;
}

bool Listener::isLoopbackOnly() const noexcept {
  return std::all_of(addresses_.begin(), addresses_.end(),
                     [](const SocketAddress& address) { return address.isLoopback(); });
}

}  // namespace unisono

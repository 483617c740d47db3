// Where other hosts reach this process.
#include <ifaddrs.h>
#include <memory>
#include <netinet/in.h>
#include <sys/socket.h>

#include "unisono/store/prefix_store.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/env.hpp"
#include "base/fd.hpp"
#include "base/str.hpp"
#include "net/resolve.hpp"
#include "transport/mesh/roster.hpp"

namespace unisono::mesh {
namespace {

UNISONO_KNOB(std::string, kHostAddress, "UNISONO_HOST_ADDR", "",
             "the address of this host at which ranks of other hosts reach its ranks");
UNISONO_KNOB(std::string, kInterface, "UNISONO_IFNAME", "",
             "the network interface at which ranks of other hosts reach those of this one");

UNISONO_KNOB(std::string, kAdvertise, "UNISONO_ADVERTISE", "",
             "host[:port] that ranks of other hosts connect to instead of where this process "
             "listens; for networks that translate addresses, and tunnels");

[[noreturn]] void refuse(std::string what, std::string hint) {
  throw UsageError({.reason = Reason::CONFIG, .what = std::move(what), .hint = std::move(hint)});
}

/// The first address of the interface; IPv4 before IPv6, and link-local ones last.
SocketAddress addressOf(const std::string& interface) {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) {
    raw = nullptr;
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(raw, ::freeifaddrs);
  SocketAddress found;
  std::vector<std::string> names;
  for (const ifaddrs* each = list.get(); each != nullptr; each = each->ifa_next) {
    if (names.empty() || names.back() != each->ifa_name) {
      names.emplace_back(each->ifa_name);
    }
    if (interface != each->ifa_name || each->ifa_addr == nullptr) {
      continue;
    }
    const int family = each->ifa_addr->sa_family;
    const bool first = family == AF_INET && found.family() != AF_INET;
    if (first || (family == AF_INET6 && !found.isInternet())) {
      found = SocketAddress(each->ifa_addr,
                            family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    }
  }
  if (!found.isInternet()) {
    refuse(str("UNISONO_IFNAME is '", interface,
               "', and this host has no such interface with an "
               "address; it has ",
               join(names, ", ")),
           "name one of them, or unset it");
  }
  return found.withPort(0);
}

/// The source address of packets that go to `target`; none is sent.
SocketAddress routeTo(const SocketAddress& target) {
  const UniqueFd probe(::socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe.valid() || ::connect(probe.get(), target.raw(), target.size()) != 0) {
    return {};
  }
  return SocketAddress::localOf(probe.get()).withPort(0);
}

}  // namespace

SocketAddress ownAddress(const StorePtr& store, Deadline deadline) {
  if (const std::string given = kHostAddress.value(); !given.empty()) {
    const auto address = SocketAddress::parse(given, 0);
    if (!address || address->isWildcard()) {
      refuse(str("UNISONO_HOST_ADDR is '", given, "', which is no address of a host"),
             "give it a numeric address, such as 10.0.0.5");
    }
    return *address;
  }
  if (const std::string interface = kInterface.value(); !interface.empty()) {
    return addressOf(interface);
  }
  const auto* prefix = dynamic_cast<const PrefixStore*>(store.get());
  const StorePtr bare = prefix == nullptr ? store : prefix->underlyingNonPrefixStore();
  if (const auto* tcp = dynamic_cast<const TCPStore*>(bare.get())) {
    const auto targets = resolve(tcp->host(), tcp->port(), deadline);
    for (std::size_t i = 0; targets.isOk() && i < targets.value().size(); ++i) {
      const SocketAddress address = routeTo(targets.value()[i]);
      if (address.isInternet()) {
        return address;
      }
    }
  }
  return SocketAddress::loopback(AF_INET, 0);
}

SocketAddress announcedAddress(const SocketAddress& own, Deadline deadline) {
  const std::string given = kAdvertise.value();
  if (given.empty()) {
    return own;
  }
  const auto refuseIt = [&](std::string_view why) {
    refuse(str("UNISONO_ADVERTISE is '", printable(given), "', at which nobody is reached: ", why),
           "give it an address or a name, and a port if that differs: 203.0.113.5:40000");
  };
  const auto literal = SocketAddress::parse(given, own.port());
  if (literal && literal->isWildcard()) {
    refuseIt("it stands for all addresses");
  }
  if (literal) {
    return *literal;
  }
  HostPort target{given, own.port()};
  if (given.find(':') != std::string::npos) {
    try {
      target = parseHostPort(given);
    } catch (const UsageError& error) {
      refuseIt(error.facts().what);
    }
  }
  const auto found = resolve(target.host, target.port, deadline);
  if (!found.isOk() || found.value().empty()) {
    refuseIt(found.isOk() ? "it has no address" : found.failure().text());
  }
  return found.value().front();
}

}  // namespace unisono::mesh

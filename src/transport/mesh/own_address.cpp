// Where other hosts reach this process.
#include <algorithm>
#include <cstdlib>
#include <ifaddrs.h>
#include <memory>
#include <netinet/in.h>
#include <sstream>
#include <sys/socket.h>
#include <utility>

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
             "the network interface at which ranks of other hosts reach those of this one, or "
             "several with commas; empty = that of GLOO_SOCKET_IFNAME, if set");
constexpr const char* kGlooInterface = "GLOO_SOCKET_IFNAME";

UNISONO_KNOB(std::string, kAdvertise, "UNISONO_ADVERTISE", "",
             "host[:port] that ranks of other hosts connect to instead of where this process "
             "listens; for networks that translate addresses, and tunnels");

constexpr std::uint16_t kAnyPort = 9;  // nothing is sent there

[[noreturn]] void refuse(std::string what, std::string hint) {
  throw UsageError({.reason = Reason::CONFIG, .what = std::move(what), .hint = std::move(hint)});
}

/// An address of this host.
struct Local {
  std::string interface;
  SocketAddress address;
};

std::vector<Local> localAddresses() {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) {
    raw = nullptr;
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(raw, ::freeifaddrs);
  std::vector<Local> all;
  for (const ifaddrs* each = list.get(); each != nullptr; each = each->ifa_next) {
    const int family = each->ifa_addr == nullptr ? AF_UNSPEC : each->ifa_addr->sa_family;
    if (family == AF_INET || family == AF_INET6) {
      const auto size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      all.push_back({each->ifa_name,
                     SocketAddress(each->ifa_addr, static_cast<socklen_t>(size)).withPort(0)});
    }
  }
  return all;
}

/// IPv4 before IPv6, and link-local ones only where there are no others: to another host they may
/// mean somebody else.
std::vector<SocketAddress> inOrder(std::vector<SocketAddress> addresses) {
  std::ranges::stable_sort(addresses, {}, [](const SocketAddress& each) {
    return std::pair(each.isLinkLocal(), each.family() != AF_INET);
  });
  const auto linkLocal = std::ranges::find_if(addresses, &SocketAddress::isLinkLocal);
  if (linkLocal != addresses.begin()) {
    addresses.erase(linkLocal, addresses.end());
  }
  return addresses;
}

/// Of the interfaces in `list`, which `variable` has named: "eth0", "ib0,eth0".
std::vector<SocketAddress> addressesOf(std::string_view variable, const std::string& list) {
  const std::vector<Local> all = localAddresses();
  std::vector<SocketAddress> found;
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) {
    std::vector<SocketAddress> ofOne;
    for (const Local& each : all) {
      if (each.interface == name) {
        ofOne.push_back(each.address);
      }
    }
    ofOne = inOrder(std::move(ofOne));
    found.insert(found.end(), ofOne.begin(), ofOne.end());
  }
  if (found.empty()) {
    std::vector<std::string> known;
    for (const Local& each : all) {
      if (std::ranges::find(known, each.interface) == known.end()) {
        known.push_back(each.interface);
      }
    }
    refuse(
        str(variable, " is '", printable(list),
            "', and this host has no such interface with an address; it has ", join(known, ", ")),
        "name one of them, or unset it");
  }
  return found;
}

/// `address`, and the others of its interface.
std::vector<SocketAddress> withNeighbours(const SocketAddress& address) {
  const std::vector<Local> all = localAddresses();
  const auto mine = std::ranges::find(all, address, &Local::address);
  std::vector<SocketAddress> others;
  for (const Local& each : all) {
    if (mine != all.end() && each.interface == mine->interface && !(each.address == address) &&
        !each.address.isLinkLocal() && !each.address.isLoopback()) {
      others.push_back(each.address);
    }
  }
  others = inOrder(std::move(others));
  others.insert(others.begin(), address);
  return others;
}

/// The source address of packets that go to `target`; none is sent.
SocketAddress routeTo(const SocketAddress& target) {
  const UniqueFd probe(::socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe.valid() || ::connect(probe.get(), target.raw(), target.size()) != 0) {
    return {};
  }
  return SocketAddress::localOf(probe.get()).withPort(0);
}

/// The address of this host for all others: that of the way out, or else the first there is.
SocketAddress outside() {
  const auto somewhere = SocketAddress::parse("192.0.2.1", kAnyPort);  // is nobody's
  if (const SocketAddress address = routeTo(*somewhere); address.isInternet()) {
    return address;
  }
  std::vector<SocketAddress> all;
  for (const Local& each : localAddresses()) {
    if (!each.address.isLoopback()) {
      all.push_back(each.address);
    }
  }
  all = inOrder(std::move(all));
  return all.empty() ? SocketAddress{} : all.front();
}

/// Whether `host` means loopback wherever it is read.
bool meansItself(const std::string& host) {
  return host.find("localhost") != std::string::npos || SocketAddress::parse(host, kAnyPort);
}

/// The source address of packets to `host`, which serves a store. On that host its name often
/// stands for a loopback address, and for the one that is wanted everywhere else.
SocketAddress towards(const std::string& host, Deadline deadline) {
  const auto targets = resolve(host, kAnyPort, deadline);
  for (std::size_t i = 0; targets.isOk() && i < targets.value().size(); ++i) {
    const SocketAddress address = routeTo(targets.value()[i]);
    if (address.isInternet()) {
      return address.isLoopback() && !meansItself(host) ? outside() : address;
    }
  }
  return {};
}

}  // namespace

std::vector<SocketAddress> ownAddresses(const StorePtr& store, Deadline deadline) {
  if (const std::string given = kHostAddress.value(); !given.empty()) {
    const auto address = SocketAddress::parse(given, 0);
    if (!address || address->isWildcard()) {
      refuse(str("UNISONO_HOST_ADDR is '", given, "', which is no address of a host"),
             "give it a numeric address, such as 10.0.0.5");
    }
    return {*address};
  }
  if (const std::string interfaces = kInterface.value(); !interfaces.empty()) {
    return addressesOf(kInterface.name, interfaces);
  }
  if (const char* gloo = std::getenv(kGlooInterface); gloo != nullptr && *gloo != '\0') {
    return addressesOf(kGlooInterface, gloo);
  }
  const SocketAddress address = towards(store->serverHost(), deadline);
  return address.isInternet() ? withNeighbours(address)
                              : std::vector{SocketAddress::loopback(AF_INET, 0)};
}

std::vector<SocketAddress> announcedAddresses(const std::vector<SocketAddress>& own,
                                              Deadline deadline) {
  const std::string given = kAdvertise.value();
  if (given.empty()) {
    return own;
  }
  const auto refuseIt = [&](std::string_view why) {
    refuse(str("UNISONO_ADVERTISE is '", printable(given), "', at which nobody is reached: ", why),
           "give it an address or a name, and a port if that differs: 203.0.113.5:40000");
  };
  const std::uint16_t port = own.front().port();
  const auto literal = SocketAddress::parse(given, port);
  if (literal && literal->isWildcard()) {
    refuseIt("it stands for all addresses");
  }
  if (literal) {
    return {*literal};
  }
  HostPort target{given, port};
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
  return found.value();
}

}  // namespace unisono::mesh

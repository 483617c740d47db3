// What `unisono doctor` finds out about the network.
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <sstream>
#include <unistd.h>
#include <vector>

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "doctor_checks.hpp"
#include "net/connect.hpp"
#include "net/listener.hpp"
#include "net/resolve.hpp"

namespace unisono::cli {
namespace {

using enum Finding::State;

constexpr Milliseconds kPatience(400);
constexpr Milliseconds kSlow(100);
constexpr int kFewPorts = 1000;

/// "eth0 10.0.0.2", of those that lead to other hosts, or of those that `only` names, with commas.
std::vector<std::string> outwardAddresses(const std::string& only) {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) {
    raw = nullptr;
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(raw, ::freeifaddrs);
  std::vector<std::string> found;
  for (const ifaddrs* each = list.get(); each != nullptr; each = each->ifa_next) {
    const bool isUp = (each->ifa_flags & IFF_UP) != 0;
    const int family = each->ifa_addr == nullptr ? AF_UNSPEC : each->ifa_addr->sa_family;
    if (!isUp || (family != AF_INET && family != AF_INET6) ||
        (!only.empty() &&
         str(",", only, ",").find(str(",", each->ifa_name, ",")) == std::string::npos)) {
      continue;
    }
    const SocketAddress address(each->ifa_addr,
                                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (!address.isLoopback() || !only.empty()) {
      found.push_back(str(each->ifa_name, " ", address.hostText()));
    }
  }
  return found;
}

}  // namespace

Finding lookAtLoopback(const Patient& /*patient*/) {
  try {
    const Deadline deadline = Deadline::after(kPatience);
    const Listener listener = Listener::open("127.0.0.1", 0, "auto", deadline);
    static_cast<void>(connectTo("127.0.0.1", listener.port(), deadline, kPatience));
    return {OK, "127.0.0.1 can be listened on and connected to"};
  } catch (const DistError& error) {
    return {FAIL, str("127.0.0.1 cannot be used: ", error.what()),
            "bring the device up (ip link set lo up), and let the firewall pass it"};
  }
}

Finding lookAtInterfaces(const Patient& /*patient*/) {
  const char* variable = "UNISONO_IFNAME";
  const char* wanted = std::getenv(variable);
  if (wanted == nullptr || *wanted == '\0') {
    variable = "GLOO_SOCKET_IFNAME";
    wanted = std::getenv(variable);
  }
  const bool isChosen = wanted != nullptr && *wanted != '\0';
  const std::vector<std::string> found = outwardAddresses(isChosen ? wanted : "");
  const char* address = std::getenv("UNISONO_HOST_ADDR");
  if (isChosen && found.empty()) {
    return {FAIL, str(variable, " is '", wanted, "', and no such interface is up"),
            str("name one of these, or unset it: ", join(outwardAddresses(""), ", "))};
  }
  if (found.empty()) {
    return {WARN, "no interface leads to other hosts",
            "nothing, as long as all ranks run on this one"};
  }
  if (address != nullptr && *address != '\0') {
    return {OK, str("other hosts are told UNISONO_HOST_ADDR, ", address)};
  }
  return {OK, str(join(found, ", "),
                  isChosen ? str(" (", variable, ")")
                           : "; other hosts are told the one that leads to the store")};
}

Finding lookAtHostName(const Patient& /*patient*/) {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') {
    return {WARN, "this host has no name", "give it one: hostname NAME"};
  }
  const TimePoint begin = systemClock().now();
  const auto addresses = resolve(name.data(), 0, Deadline::after(kPatience));
  const auto took = std::chrono::duration_cast<Milliseconds>(systemClock().now() - begin);
  const std::string remedy = str("write it into /etc/hosts, or use addresses instead of names");
  if (!addresses.isOk()) {
    return {WARN, str(name.data(), " cannot be resolved within ", formatDuration(kPatience)),
            remedy};
  }
  bool isOutward = false;
  std::vector<std::string> texts;
  for (const SocketAddress& each : addresses.value()) {
    isOutward = isOutward || !each.isLoopback();
    texts.push_back(each.hostText());
  }
  const std::string what =
      str(name.data(), " is ", join(texts, ", "),
          isOutward ? "" : ": a store at this name is reached from this host only");
  if (took > kSlow) {
    return {WARN, str(what, ", which took ", formatDuration(took), " to find out"), remedy};
  }
  return {OK, what};
}

Finding lookAtPorts(const Patient& patient) {
  std::istringstream range(firstLineOf(patient, "/proc/sys/net/ipv4/ip_local_port_range"));
  int least = 0;
  int most = 0;
  if (!(range >> least >> most)) {
    return {OK, "the range of ports is not known"};
  }
  const int ports = most - least + 1;
  int waiting = 0;
  std::ifstream sockets(patient.root + "/proc/net/sockstat");
  for (std::string line; std::getline(sockets, line);) {
    if (line.starts_with("TCP:")) {
      std::sscanf(line.c_str(), "TCP: inuse %*d orphan %*d tw %d", &waiting);
    }
  }
  const std::string what =
      str(ports, " ports for connections (", least, " to ", most, "), ", waiting, " in TIME_WAIT");
  if (ports < kFewPorts) {
    return {WARN, what, "sysctl -w net.ipv4.ip_local_port_range='32768 60999'"};
  }
  if (waiting > ports / 2) {
    return {WARN, what, "find out who opens so many connections (ss -tan state time-wait)"};
  }
  return {OK, what};
}

}  // namespace unisono::cli

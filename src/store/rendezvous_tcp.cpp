// The schemes tcp:// and env://, which both lead to a TCPStore.
#include <cstdlib>
#include <string>
#include <utility>

#include "unisono/store/tcp_store.hpp"

#include "base/str.hpp"
#include "store/rendezvous_schemes.hpp"

namespace unisono {
namespace {

constexpr std::string_view kAddressRemedy =
    "name the host and port of rank 0, as in tcp://10.0.0.1:29500 or in MASTER_ADDR and "
    "MASTER_PORT";

/// A variable of the launcher's, empty when it is not set. These are PyTorch's names, not knobs
/// of ours.
std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string neededVariable(const char* name) {
  std::string value = variable(name);
  if (value.empty()) {
    refuseRendezvous("env", str("environment variable ", name, " expected, but not set"),
                     "set it, or start the ranks with a launcher that does, such as torchrun");
  }
  return value;
}

int neededNumber(const char* name) {
  return parseWhole(str("the environment variable ", name), neededVariable(name));
}

bool wantsLibUv(const RendezvousUrl& url) {
  const auto found = url.query.find("use_libuv");
  if (found != url.query.end()) {
    return found->second == "1";
  }
  const char* asked = std::getenv("USE_LIBUV");
  return asked == nullptr || std::string_view(asked) == "1";
}

/// Whether the launcher runs the store at this address, so that all ranks are mere clients.
bool launcherServes(const std::string& host, int port) {
  return variable("TORCHELASTIC_USE_AGENT_STORE") == "True" && variable("MASTER_ADDR") == host &&
         variable("MASTER_PORT") == std::to_string(port);
}

RendezvousResult meetAt(std::string_view scheme, const std::string& host, int port,
                        const RendezvousUrl& url, const RendezvousOptions& options) {
  if (port < 0 || port > 65535) {
    refuseRendezvous(scheme, str("port must have value from 0 to 65535 but was ", port, "."),
                     kAddressRemedy);
  }
  const Place place = placeIn(scheme, options);
  const bool foreignServer = launcherServes(host, port);
  const TCPStoreOptions storeOptions{.port = static_cast<std::uint16_t>(port),
                                     .isServer = place.rank == 0 && !foreignServer,
                                     .numWorkers = static_cast<std::size_t>(place.worldSize),
                                     .timeout = options.timeout,
                                     .multiTenant = !foreignServer,
                                     .useLibUV = wantsLibUv(url)};
  return {.store = std::make_shared<TCPStore>(host, storeOptions),
          .rank = place.rank,
          .worldSize = place.worldSize};
}

}  // namespace

Master masterFromEnvironment() {
  std::string host = neededVariable("MASTER_ADDR");
  return {.host = std::move(host), .port = neededNumber("MASTER_PORT")};
}

RendezvousResult rendezvousTcp(const RendezvousUrl& url, const RendezvousOptions& options) {
  if (url.host.empty()) {
    refuseRendezvous("tcp", "host missing", kAddressRemedy);
  }
  if (!url.port) {
    refuseRendezvous("tcp", "port number missing", kAddressRemedy);
  }
  return meetAt("tcp", url.host, *url.port, url, options);
}

RendezvousResult rendezvousEnv(const RendezvousUrl& url, const RendezvousOptions& options) {
  RendezvousOptions known = options;
  if (!known.rank) {
    known.rank = neededNumber("RANK");
  }
  if (!known.worldSize) {
    known.worldSize = neededNumber("WORLD_SIZE");
  }
  const Master master = masterFromEnvironment();
  return meetAt("env", master.host, master.port, url, known);
}

}  // namespace unisono

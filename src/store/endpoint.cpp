#include "store/endpoint.hpp"

#include <array>
#include <cstdlib>
#include <utility>

#include "unisono/base/error.hpp"
#include "unisono/store/file_store.hpp"
#include "unisono/store/prefix_store.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/env.hpp"
#include "base/str.hpp"
#include "store/rendezvous_schemes.hpp"

namespace unisono {
namespace {

UNISONO_KNOB(std::string, kStore, "UNISONO_STORE", "",
             "the store that the store commands use, as a URL such as tcp://127.0.0.1:29500");

[[noreturn]] void refuse(std::string_view url, std::string_view why, std::string_view hint = {}) {
  throw UsageError({.reason = Reason::USAGE,
                    .what = str("there is no store at ", url, ": ", why),
                    .hint = hint.empty() ? "write tcp://host:port, tcp://host:port/prefix, "
                                           "file:///path or env://"
                                         : std::string(hint)});
}

StorePtr connectTo(std::string_view text, const std::string& host, int port, std::string prefix,
                   Milliseconds timeout) {
  if (host.empty() || port < 1 || port > 65535) {
    refuse(text, host.empty() ? "the host is missing" : "a port is from 1 to 65535");
  }
  StorePtr store =
      std::make_shared<TCPStore>(host, TCPStoreOptions{.port = static_cast<std::uint16_t>(port),
                                                       .waitWorkers = false,
                                                       .timeout = timeout,
                                                       .syncWrites = true});
  while (prefix.ends_with('/')) {
    prefix.pop_back();
  }
  return prefix.empty() ? store : std::make_shared<PrefixStore>(prefix.substr(1), store);
}

bool isSet(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

std::string endpointFromEnvironment() {
  if (std::string url = kStore.value(); !url.empty()) {
    return url;
  }
  return isSet("MASTER_ADDR") && isSet("MASTER_PORT") ? "env://" : "";
}

StorePtr openEndpoint(std::string_view text, Milliseconds timeout) {
  const RendezvousUrl url = parseRendezvousUrl(text);
  if (!url.query.empty()) {
    refuse(text, str("the parameter '", url.query.begin()->first, "' has no meaning here"));
  }
  if (url.scheme == "tcp") {
    return connectTo(text, url.host, url.port.value_or(TCPStoreOptions::kDefaultPort), url.path,
                     timeout);
  }
  if (url.scheme == "env") {
    const Master master = masterFromEnvironment();
    return connectTo(text, master.host, master.port, url.path, timeout);
  }
  if (url.scheme == "file") {
    if (!url.host.empty() && url.host != "localhost") {
      refuse(text, "a path begins with a third slash, as in file:///tmp/job");
    }
    if (url.path.empty() || url.path == "/") {
      refuse(text, "the path is missing");
    }
    return FileStore::visit(url.path, timeout);
  }
  constexpr std::array<std::string_view, 3> kSchemes = {"tcp", "file", "env"};
  const std::string_view meant = nearest(url.scheme, kSchemes);
  refuse(text, str(url.scheme, ":// is not known"),
         meant.empty() ? "" : str("did you mean ", meant, "://?"));
}

}  // namespace unisono

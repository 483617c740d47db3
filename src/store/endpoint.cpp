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
             "the store at which ranks meet, and that the store commands use, as a URL such as "
             "tcp://127.0.0.1:29500");

constexpr std::string_view kForms =
    "write tcp://host:port, tcp://host:port/prefix, file:///path or env://";

[[noreturn]] void refuse(std::string_view url, std::string_view why, std::string_view hint = {}) {
  throw UsageError({.reason = Reason::USAGE,
                    .what = str("there is no store at ", url, ": ", why),
                    .hint = std::string(hint.empty() ? kForms : hint)});
}

/// The parts of `text`; what it lacks is said in terms of endpoints, which have no rank.
RendezvousUrl partsOf(std::string_view text) try {
  return parseRendezvousUrl(text);
} catch (const UsageError& error) {
  ErrorFacts facts = error.facts();
  facts.hint = kForms;
  throw UsageError(std::move(facts));
}

Endpoint serverAt(std::string_view text, std::string host, int port, std::string prefix) {
  if (host.empty() || port < 1 || port > 65535) {
    refuse(text, host.empty() ? "the host is missing" : "a port is from 1 to 65535");
  }
  while (prefix.ends_with('/')) {
    prefix.pop_back();
  }
  return {.host = std::move(host),
          .port = static_cast<std::uint16_t>(port),
          .prefix = prefix.empty() ? "" : prefix.substr(1),
          .file = {}};
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

Endpoint parseEndpoint(std::string_view text) {
  const RendezvousUrl url = partsOf(text);
  if (!url.query.empty()) {
    refuse(text, str("the parameter '", url.query.begin()->first, "' has no meaning here"));
  }
  if (url.scheme == "tcp") {
    return serverAt(text, url.host, url.port.value_or(TCPStoreOptions::kDefaultPort), url.path);
  }
  if (url.scheme == "env") {
    const Master master = masterFromEnvironment();
    return serverAt(text, master.host, master.port, url.path);
  }
  if (url.scheme == "file") {
    if (!url.host.empty() && url.host != "localhost") {
      refuse(text, "a path begins with a third slash, as in file:///tmp/job");
    }
    if (url.path.empty() || url.path == "/") {
      refuse(text, "the path is missing");
    }
    return {.host = {}, .port = 0, .prefix = {}, .file = url.path};
  }
  constexpr std::array<std::string_view, 3> kSchemes = {"tcp", "file", "env"};
  const std::string_view meant = nearest(url.scheme, kSchemes);
  refuse(text, str(url.scheme, ":// is not known"),
         meant.empty() ? "" : str("did you mean ", meant, "://?"));
}

StorePtr openEndpoint(std::string_view text, Milliseconds timeout) {
  const Endpoint endpoint = parseEndpoint(text);
  if (!endpoint.file.empty()) {
    return FileStore::visit(endpoint.file, timeout);
  }
  StorePtr store = std::make_shared<TCPStore>(
      endpoint.host,
      TCPStoreOptions{
          .port = endpoint.port, .waitWorkers = false, .timeout = timeout, .syncWrites = true});
  return endpoint.prefix.empty() ? store : std::make_shared<PrefixStore>(endpoint.prefix, store);
}

}  // namespace unisono

// Endpoints: a store by its URL, for tools that are no rank of any job.
//
//   tcp://10.0.0.1:29500           a server, ours or PyTorch's
//   tcp://10.0.0.1:29500/job/7     the keys under job/7 there
//   file:///shared/job17           the file of a FileStore
//   env://                         the server at MASTER_ADDR and MASTER_PORT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "unisono/store/store.hpp"

#include "base/clock.hpp"

namespace unisono {

/// The URL that the environment gives: UNISONO_STORE, or env:// where MASTER_ADDR and MASTER_PORT
/// are set; empty when there is none.
std::string endpointFromEnvironment();

/// What a URL of a store says. Throws UsageError when it makes no sense.
struct Endpoint {
  std::string host;  // of a server
  std::uint16_t port = 0;
  std::string prefix;  // of the keys there; "job/7"
  std::string file;    // of a FileStore; empty for a server
};
Endpoint parseEndpoint(std::string_view url);

/// The store at `url`. It starts no server, waits for no worker and counts as none; `timeout` is
/// for connecting, and the store's own afterwards. Throws UsageError for a URL that makes no sense,
/// and whatever making the store throws.
StorePtr openEndpoint(std::string_view url, Milliseconds timeout);

}  // namespace unisono

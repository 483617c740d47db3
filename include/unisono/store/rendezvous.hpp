// Rendezvous: from a URL to a store, a rank and a world size.
//
//   tcp://10.0.0.1:29500?rank=1&world_size=4     rank 0 runs the server
//   file:///shared/job17?rank=1&world_size=4     a FileStore
//   env://                                       RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/store/store.hpp"

namespace unisono {

/// What a rendezvous gives.
struct RendezvousResult {
  StorePtr store;
  int rank = 0;
  int worldSize = 1;
};

/// What the caller knows beforehand; values here must not be repeated in the URL.
struct RendezvousOptions {
  std::optional<int> rank = std::nullopt;
  std::optional<int> worldSize = std::nullopt;
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
};

/// Meets the other ranks at `url`. Ranks that are not told where else they stand may say so in
/// it (rank, world_size); tcp and env also know use_libuv=0, for a server without libuv.
///
/// Throws UsageError when the URL or the environment says too little or nonsense, and whatever
/// making the store throws.
UNISONO_API RendezvousResult rendezvous(std::string_view url,
                                        const RendezvousOptions& options = {});

/// A URL in parts: scheme://host:port/path?name=value&…; an IPv6 host comes without brackets,
/// and %20 in path and query as a blank.
struct RendezvousUrl {
  std::string scheme;
  std::string host;
  std::optional<int> port;
  std::string path;
  std::map<std::string, std::string, std::less<>> query;
};

/// Parses `text`; throws UsageError naming what is wrong.
UNISONO_API RendezvousUrl parseRendezvousUrl(std::string_view text);

/// Makes the store for a URL. Its options hold the rank and world size of the URL too.
using RendezvousHandler =
    std::function<RendezvousResult(const RendezvousUrl&, const RendezvousOptions&)>;

/// Adds a scheme for this process; throws UsageError when it exists.
UNISONO_API void registerRendezvousHandler(std::string scheme, RendezvousHandler handler);

/// The schemes that rendezvous() knows.
UNISONO_API std::vector<std::string> rendezvousSchemes();

}  // namespace unisono

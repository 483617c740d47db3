// How the verbs reach a store and what is in it.

#include <algorithm>
#include <filesystem>
#include <fnmatch.h>
#include <iterator>
#include <memory>
#include <utility>

#include "unisono/base/error.hpp"
#include "unisono/store/file_store.hpp"
#include "unisono/store/prefix_store.hpp"
#include "unisono/store/rendezvous.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/bytes.hpp"
#include "base/str.hpp"
#include "store/endpoint.hpp"
#include "terminal.hpp"
#include "verbs/verbs.hpp"

namespace unisono::cli {
namespace {

// A key that vanishes after it has been seen is waited for no longer than this.
constexpr Milliseconds kVanished(1000);

// Keys asked for in one request: few enough for a reply that no server refuses for its length,
// as long as values are not huge (then they are asked for one by one).
constexpr std::size_t kBatch = 256;

// More than any server takes, also in hexadecimal.
constexpr std::size_t kLongestValue = std::size_t{256} << 20;

std::string textOf(const Bytes& bytes) {
  return std::string(asText(bytes));
}

/// For the store below prefixes, if it is of that kind.
template <typename Kind>
Kind* below(Store& store) {
  auto* prefixed = dynamic_cast<PrefixStore*>(&store);
  return dynamic_cast<Kind*>(prefixed == nullptr ? &store
                                                 : prefixed->underlyingNonPrefixStore().get());
}

void refuseMissingFile(const std::string& url) {
  const std::string path = parseEndpoint(url).file;
  std::error_code error;
  if (!path.empty() && !std::filesystem::exists(path, error)) {
    throw DistNetworkError({.reason = Reason::CONFIG,
                            .what = str("there is no store at ", url, ": the file does not exist"),
                            .hint = "is the path right, and has the job been started?"});
  }
}

}  // namespace

Target openTarget(const Args& args, Missing missing, Milliseconds patience) {
  std::string url = args.endpoint.empty() ? endpointFromEnvironment() : args.endpoint;
  if (url.empty()) {
    throw UsageError({.reason = Reason::USAGE,
                      .what = "no store was named",
                      .hint = "give one with -e tcp://127.0.0.1:29500, or set UNISONO_STORE"});
  }
  if (missing == Missing::REFUSE) {
    refuseMissingFile(url);
  }
  StorePtr store = openEndpoint(url, args.timeout ? fromSeconds(*args.timeout) : patience);
  return {.url = std::move(url), .store = std::move(store)};
}

std::string serverStats(Store& store) {
  TCPStore* tcp = below<TCPStore>(store);
  return tcp == nullptr ? "" : tcp->serverStats();
}

std::string serverKind(Store& store) {
  if (below<FileStore>(store) != nullptr) {
    return "file";
  }
  const TCPStore* tcp = below<TCPStore>(store);
  return tcp != nullptr && tcp->hasNativeServer() ? "unisono" : "other";
}

std::int64_t queueLength(Store& store, const std::string& key) {
  try {
    return store.queueLen(key);
  } catch (const NotSupportedError&) {
    return 0;
  }
}

namespace {

/// From PyTorch's servers a key that has just been deleted can be had, empty.
std::optional<std::string> unlessVanished(Store& store, const std::string& key, std::string value) {
  return value.empty() && !store.check({key}) ? std::nullopt : std::optional(std::move(value));
}

/// The values of keys, in one request; DistStoreError (TIMEOUT) when one of them has none.
std::vector<std::optional<std::string>> tryBatch(Store& store, std::span<const std::string> keys) {
  if (!store.check(keys)) {
    throw DistStoreError(
        {.reason = Reason::TIMEOUT, .what = "a key has vanished", .hint = "ask again"});
  }
  const StoreTimeoutGuard guard(store, std::min(store.timeout(), kVanished));
  const std::vector<Bytes> got = store.multiGet(keys);
  std::vector<std::optional<std::string>> values;
  for (std::size_t i = 0; i < got.size(); ++i) {
    values.push_back(unlessVanished(store, keys[i], textOf(got[i])));
  }
  return values;
}

}  // namespace

std::optional<std::string> tryGet(Store& store, const std::string& key) {
  if (!store.check({key})) {
    return std::nullopt;
  }
  // A queue is there, too. To get it would take as long as to wait for a value, or, from
  // PyTorch's servers, give an empty one.
  if (queueLength(store, key) == 0) {
    try {
      const StoreTimeoutGuard guard(store, std::min(store.timeout(), kVanished));
      return unlessVanished(store, key, textOf(store.get(key)));
    } catch (const DistStoreError& error) {
      if (error.reason() != Reason::TIMEOUT) {
        throw;
      }
    }
  }
  // Gone meanwhile, or a queue; or the server is slow, and then it deserves all of the timeout.
  const std::vector<std::string> there = store.listKeys();
  if (std::find(there.begin(), there.end(), key) == there.end()) {
    return std::nullopt;
  }
  return textOf(store.get(key));
}

std::vector<std::optional<std::string>> tryGetAll(Store& store, std::span<const std::string> keys) {
  std::vector<std::optional<std::string>> values;
  values.reserve(keys.size());
  for (std::size_t start = 0; start < keys.size(); start += kBatch) {
    const auto batch = keys.subspan(start, std::min(kBatch, keys.size() - start));
    // What a batch brought before it failed must not stay: it would shift what comes after it.
    std::vector<std::optional<std::string>> some;
    try {
      some = tryBatch(store, batch);
    } catch (const DistStoreError& error) {
      if (error.reason() != Reason::TIMEOUT && error.reason() != Reason::LIMIT) {
        throw;
      }
      for (const std::string& key : batch) {
        some.push_back(tryGet(store, key));
      }
    }
    std::move(some.begin(), some.end(), std::back_inserter(values));
  }
  return values;
}

std::vector<std::string> keysLike(Store& store, const std::string& glob) {
  std::vector<std::string> matching;
  for (std::string& key : store.listKeys()) {
    if (glob == "*" || ::fnmatch(glob.c_str(), key.c_str(), 0) == 0) {
      matching.push_back(std::move(key));
    }
  }
  std::sort(matching.begin(), matching.end());
  return matching;
}

std::string valueOf(const Args& args, const std::string& word) {
  std::string given = word;
  if (!args.literal && word == "-") {
    given = readAll("-", kLongestValue);
  } else if (!args.literal && word.starts_with('@')) {
    given = readAll(word.substr(1), kLongestValue);
  }
  if (!args.hex && !args.base64) {
    return given;
  }
  std::optional<std::string> bytes = args.hex ? fromHex(given) : fromBase64(given);
  if (!bytes) {
    throw UsageError(
        {.reason = Reason::USAGE,
         .what = str("'", given.substr(0, 64), "' is not ", args.hex ? "hexadecimal" : "base64"),
         .hint = args.hex ? "write two digits for each byte, as in 00ff"
                          : "write it as `base64 FILE` prints it"});
  }
  return std::move(*bytes);
}

}  // namespace unisono::cli

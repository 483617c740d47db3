#include "unisono/store/rendezvous.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "unisono/store/file_store.hpp"

#include "base/check.hpp"
#include "base/mutex.hpp"
#include "store/rendezvous_schemes.hpp"

namespace unisono {
namespace {

struct Scheme {
  std::string_view name;
  RendezvousResult (*meet)(const RendezvousUrl&, const RendezvousOptions&);
};

constexpr std::array<Scheme, 3> kBuiltIn = {{
    {"env", rendezvousEnv},    // a TCPStore, told by RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
    {"file", rendezvousFile},  // a FileStore
    {"tcp", rendezvousTcp},    // a TCPStore
}};

/// Schemes added at run time. Never destroyed: threads may outlive main.
struct Registry {
  Mutex mutex;
  std::map<std::string, RendezvousHandler, std::less<>> handlers UNISONO_GUARDED_BY(mutex);
};

Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

RendezvousHandler findHandler(std::string_view scheme) {
  for (const Scheme& known : kBuiltIn) {
    if (known.name == scheme) {
      return known.meet;
    }
  }
  Registry& added = registry();
  const MutexLock lock(added.mutex);
  const auto found = added.handlers.find(scheme);
  return found == added.handlers.end() ? RendezvousHandler() : found->second;
}

[[noreturn]] void refuseScheme(std::string_view scheme) {
  const std::vector<std::string> known = rendezvousSchemes();
  const std::vector<std::string_view> names(known.begin(), known.end());
  const std::string_view meant = nearest(scheme, names);
  throw UsageError(
      {.reason = Reason::USAGE,
       .what = str("No rendezvous handler for ", scheme, "://; known are ", join(known, ", ")),
       .hint = meant.empty() ? "" : str("did you mean ", meant, "://?")});
}

/// Takes a number from the URL into `option`, which must not have been given both ways.
void takeFromUrl(const RendezvousUrl& url, std::string_view name, std::optional<int>& option) {
  const auto found = url.query.find(name);
  if (found == url.query.end()) {
    return;
  }
  UNISONO_CHECK(!option, "The ", url.scheme,
                ":// url has node-specific arguments(rank, world_size) already: ", name,
                " is given there and as an option too");
  option = parseWhole(str("the URL's ", name), found->second);
}

}  // namespace

void refuseRendezvous(std::string_view scheme, std::string_view why, std::string_view remedy) {
  throw UsageError({.reason = Reason::USAGE,
                    .what = str("Error initializing using ", scheme, ":// rendezvous: ", why),
                    .hint = std::string(remedy)});
}

int parseWhole(std::string_view what, std::string_view text) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  UNISONO_CHECK(error == std::errc() && stop == end, what, " is '", text,
                "', which is not a whole number from ", std::numeric_limits<int>::min(), " to ",
                std::numeric_limits<int>::max());
  return number;
}

Place placeIn(std::string_view scheme, const RendezvousOptions& options) {
  constexpr std::string_view kPlaceRemedy =
      "give rank and world size as options, or in the URL: ?rank=0&world_size=2";
  if (!options.rank) {
    refuseRendezvous(scheme, "rank parameter missing", kPlaceRemedy);
  }
  if (!options.worldSize) {
    refuseRendezvous(scheme, "world size parameter missing (world_size)", kPlaceRemedy);
  }
  const Place place{*options.rank, *options.worldSize};
  if (place.worldSize < 1) {
    refuseRendezvous(scheme, str("world_size is ", place.worldSize, ", but must be at least 1"),
                     kPlaceRemedy);
  }
  if (place.rank < 0 || place.rank >= place.worldSize) {
    refuseRendezvous(scheme,
                     str("rank is ", place.rank, ", but must be from 0 to ", place.worldSize - 1,
                         " with world_size ", place.worldSize),
                     kPlaceRemedy);
  }
  return place;
}

RendezvousResult rendezvousFile(const RendezvousUrl& url, const RendezvousOptions& options) {
  constexpr std::string_view kRemedy = "a path begins with a third slash, as in file:///tmp/job";
  if (!url.host.empty() && url.host != "localhost") {
    refuseRendezvous("file", str("path missing: '", url.host, "' stands where a host does"),
                     kRemedy);
  }
  if (url.path.empty() || url.path == "/") {
    refuseRendezvous("file", "path missing", kRemedy);
  }
  const Place place = placeIn("file", options);
  return {.store = std::make_shared<FileStore>(url.path, place.worldSize, options.timeout),
          .rank = place.rank,
          .worldSize = place.worldSize};
}

RendezvousResult rendezvous(std::string_view text, const RendezvousOptions& options) {
  const RendezvousUrl url = parseRendezvousUrl(text);
  RendezvousOptions known = options;
  takeFromUrl(url, "rank", known.rank);
  takeFromUrl(url, "world_size", known.worldSize);
  const RendezvousHandler handler = findHandler(url.scheme);
  if (!handler) {
    refuseScheme(url.scheme);
  }
  return handler(url, known);
}

void registerRendezvousHandler(std::string scheme, RendezvousHandler handler) {
  UNISONO_CHECK(
      handler != nullptr && !scheme.empty() && scheme.find_first_of(":/?#") == std::string::npos,
      "a rendezvous handler needs a function and a scheme without :/?#, but got '", scheme, "'");
  scheme = lowered(scheme);
  const bool builtIn = std::any_of(kBuiltIn.begin(), kBuiltIn.end(),
                                   [&](const Scheme& known) { return known.name == scheme; });
  Registry& added = registry();
  const MutexLock lock(added.mutex);
  UNISONO_CHECK(!builtIn && added.handlers.emplace(scheme, std::move(handler)).second,
                "Rendezvous handler for ", scheme, ":// already registered");
}

std::vector<std::string> rendezvousSchemes() {
  std::vector<std::string> schemes;
  for (const Scheme& known : kBuiltIn) {
    schemes.emplace_back(known.name);
  }
  Registry& added = registry();
  const MutexLock lock(added.mutex);
  for (const auto& [scheme, handler] : added.handlers) {
    schemes.push_back(scheme);
  }
  std::sort(schemes.begin(), schemes.end());
  return schemes;
}

}  // namespace unisono

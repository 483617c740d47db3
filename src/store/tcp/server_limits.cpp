// How the limits of a server come about.

#include <algorithm>
#include <sys/resource.h>
#include <unistd.h>

#include "unisono/base/error.hpp"

#include "base/env.hpp"
#include "store/tcp/server.hpp"

namespace unisono::tcp {
namespace {

UNISONO_KNOB(std::int64_t, kMaxKey, "UNISONO_STORE_MAX_KEY_BYTES", "8192",
             "longest key a store server takes, with the '/' in front");
UNISONO_KNOB(std::int64_t, kMaxValue, "UNISONO_STORE_MAX_VALUE_BYTES", "8388608",
             "longest value a store server takes");
UNISONO_KNOB(std::int64_t, kMaxKeysPerCommand, "UNISONO_STORE_MAX_KEYS_PER_COMMAND", "131072",
             "most keys in one request to a store server");
UNISONO_KNOB(std::int64_t, kMaxCommand, "UNISONO_STORE_MAX_COMMAND_BYTES", "67108864",
             "longest request a store server takes");
UNISONO_KNOB(std::int64_t, kMaxContents, "UNISONO_STORE_MAX_BYTES", "1073741824",
             "how much a store server remembers in all (at most 1/8 of the memory)");
UNISONO_KNOB(std::int64_t, kMaxKeys, "UNISONO_STORE_MAX_KEYS", "4000000",
             "how many keys a store server remembers");
UNISONO_KNOB(std::int64_t, kMaxConnections, "UNISONO_STORE_MAX_CONNECTIONS", "65536",
             "how many connections a store server holds (at most the open-file limit less 256)");

std::uint64_t positive(const EnvKnob<std::int64_t>& knob) {
  const std::int64_t value = knob.value();
  if (value <= 0) {
    throw UsageError({.reason = Reason::CONFIG,
                      .what = std::string(knob.name) + " must be greater than 0",
                      .hint = std::string("unset it, or set: ") + knob.doc});
  }
  return static_cast<std::uint64_t>(value);
}

std::uint64_t memoryBytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long size = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(size)
             : std::uint64_t{8} << 30U;
}

std::uint64_t descriptors() {
  constexpr std::uint64_t kForOthers = 256;
  rlimit limit{};
  // The hard limit: a server raises the other one to it when it starts.
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max <= 2 * kForOthers) {
    return kForOthers;
  }
  return limit.rlim_max - kForOthers;
}

}  // namespace

StoreLimits serverLimits() {
  StoreLimits limits;
  limits.keyBytes = positive(kMaxKey);
  limits.valueBytes = positive(kMaxValue);
  limits.keysPerCommand = positive(kMaxKeysPerCommand);
  limits.commandBytes = positive(kMaxCommand);
  limits.contentBytes = std::min(positive(kMaxContents), memoryBytes() / 8);
  limits.keys = positive(kMaxKeys);
  limits.connections = std::min(positive(kMaxConnections), descriptors());
  return limits;
}

}  // namespace unisono::tcp

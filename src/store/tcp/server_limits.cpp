// How the limits of a server come about.

#include <algorithm>
#include <sys/resource.h>
#include <unistd.h>

#include "unisono/base/error.hpp"

#include "base/env.hpp"
#include "base/str.hpp"
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
UNISONO_KNOB(std::int64_t, kMaxQueue, "UNISONO_STORE_MAX_QUEUE_LENGTH", "1000000",
             "how many elements a queue of a store server holds");
UNISONO_KNOB(std::int64_t, kMaxConnections, "UNISONO_STORE_MAX_CONNECTIONS", "65536",
             "how many connections a store server holds (at most the open-file limit less 256)");

UNISONO_KNOB(std::int64_t, kMaxUnvalidated, "UNISONO_STORE_MAX_UNVALIDATED", "1024",
             "how many connections that have not said hello a store server holds");
UNISONO_KNOB(std::int64_t, kHello, "UNISONO_STORE_HELLO_MS", "5000",
             "milliseconds in which a client must say hello to a store server");
UNISONO_KNOB(std::int64_t, kStalledCommand, "UNISONO_STORE_STALLED_COMMAND_MS", "30000",
             "milliseconds of silence in the middle of a request before a store server closes");
UNISONO_KNOB(std::int64_t, kStalledReader, "UNISONO_STORE_STALLED_READER_MS", "30000",
             "milliseconds in which a client takes none of its replies before a store server "
             "closes");
UNISONO_KNOB(std::int64_t, kMaxUnsent, "UNISONO_STORE_MAX_UNSENT_BYTES", "67108864",
             "how much of its replies a store server keeps for one connection");
UNISONO_KNOB(std::int64_t, kUnsentPause, "UNISONO_STORE_UNSENT_PAUSE_BYTES", "1048576",
             "with more replies waiting, a store server does not read from that connection");
UNISONO_KNOB(std::int64_t, kMaxUnsentTotal, "UNISONO_STORE_MAX_UNSENT_TOTAL_BYTES", "536870912",
             "with more replies waiting in all, a store server reads from none that has some");
UNISONO_KNOB(std::int64_t, kMaxPartialTotal, "UNISONO_STORE_MAX_PARTIAL_TOTAL_BYTES", "536870912",
             "how much of incomplete requests a store server keeps in all");

// Beyond these a limit is none, and sums of limits would overflow.
constexpr std::uint64_t kLargest = std::uint64_t{1} << 60U;
constexpr std::uint64_t kLongestMs = 1000UL * 60 * 60 * 24 * 366;

// What a SET has beside key and value, and an answered GET beside the value.
constexpr std::uint64_t kSetOverhead = 1 + 8 + 8;
constexpr std::uint64_t kGetOverhead = 1 + 8;

std::uint64_t positive(const EnvKnob<std::int64_t>& knob) {
  const std::int64_t value = knob.value();
  if (value <= 0) {
    throw UsageError({.reason = Reason::CONFIG,
                      .what = std::string(knob.name) + " must be greater than 0",
                      .hint = std::string("unset it, or set: ") + knob.doc});
  }
  return std::min(static_cast<std::uint64_t>(value), kLargest);
}

Milliseconds duration(const EnvKnob<std::int64_t>& knob) {
  return Milliseconds(static_cast<std::int64_t>(std::min(positive(knob), kLongestMs)));
}

/// CONFIG unless what `small` allows, `needed` bytes in all, fits in what `large` allows.
void requireFits(const EnvEntry& small, std::uint64_t needed, const EnvEntry& large,
                 std::uint64_t most, std::string_view what) {
  if (needed > most) {
    throw UsageError({.reason = Reason::CONFIG,
                      .what = str(small.name, " and ", large.name, " contradict each other: ", what,
                                  " may need ", needed, " bytes, but only ", most, " are allowed"),
                      .hint = str("lower ", small.name, " or raise ", large.name)});
  }
}

void requireNoContradictions(const StoreLimits& limits) {
  requireFits(kMaxValue, limits.keyBytes + limits.valueBytes + kSetOverhead, kMaxCommand,
              limits.commandBytes, "a request with the longest key and value");
  requireFits(kMaxValue, limits.valueBytes + kGetOverhead, kMaxUnsent, limits.unsentBytes,
              "a reply with the longest value");
  requireFits(kUnsentPause, limits.unsentPause, kMaxUnsent, limits.unsentBytes,
              "what waits before reading stops");
  requireFits(kMaxUnsent, limits.unsentBytes, kMaxUnsentTotal, limits.unsentTotal,
              "one connection");
  requireFits(kMaxCommand, limits.commandBytes, kMaxPartialTotal, limits.partialTotal,
              "one request");
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
  limits.queueLength = positive(kMaxQueue);
  limits.connections = std::min(positive(kMaxConnections), descriptors());
  limits.unvalidated = positive(kMaxUnvalidated);
  limits.helloTime = duration(kHello);
  limits.stalledCommand = duration(kStalledCommand);
  limits.stalledReader = duration(kStalledReader);
  limits.unsentBytes = positive(kMaxUnsent);
  limits.unsentPause = positive(kUnsentPause);
  limits.unsentTotal = positive(kMaxUnsentTotal);
  limits.partialTotal = positive(kMaxPartialTotal);
  requireNoContradictions(limits);
  return limits;
}

}  // namespace unisono::tcp

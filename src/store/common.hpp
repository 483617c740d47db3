// What all stores check and say alike.
#pragma once

#include <span>
#include <string>

#include "unisono/store/store.hpp"

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"

namespace unisono {

/// `timeout`, or UsageError when it is negative.
Milliseconds checkedTimeout(Milliseconds timeout);

/// What a store's timeout is before anybody sets it.
Milliseconds defaultTimeout();

/// UsageError unless there is one value for each key.
inline void checkSameSize(std::span<const std::string> keys, std::span<const Bytes> values) {
  UNISONO_CHECK(keys.size() == values.size(),
                "multiSet keys and values vectors must be of same size, but there are ",
                keys.size(), " keys and ", values.size(), " values");
}

/// What to do when a store refused a call for `reason`.
inline std::string remedyFor(Reason reason) {
  switch (reason) {
    case Reason::USAGE:
      return "keep a counter under a key of its own, or set it anew";
    case Reason::LIMIT:
      return "a store is for small control data: delete what is not needed any more, and keep "
             "large data elsewhere";
    default:
      return "";
  }
}

/// "Wait timeout": the error of every wait that gave up, on whatever store.
[[noreturn]] inline void throwWaitTimeout(std::string_view op, std::span<const std::string> keys,
                                          Milliseconds timeout, std::string_view why = {},
                                          std::string_view host = {}) {
  throw DistStoreError({.reason = Reason::TIMEOUT,
                        .what = str(op, " gave up: wait timeout after ", timeout.count(),
                                    "ms, keys: ", join(keys, ", "), why.empty() ? "" : ". ", why),
                        .hint = "is the rank that sets it running? raise the timeout if it is slow",
                        .op = std::string(op),
                        .host = std::string(host),
                        .elapsed = timeout});
}

[[noreturn]] inline void throwBarrierTimeout(std::string_view key, std::int64_t worldSize,
                                             Milliseconds timeout, std::string_view host = {}) {
  throw DistStoreError({.reason = Reason::TIMEOUT,
                        .what = str("barrier timeout after ", timeout.count(), "ms, key: ", key,
                                    ". Fewer than ", worldSize, " arrived"),
                        .hint = "look for the ranks that did not arrive",
                        .op = "barrier",
                        .host = std::string(host),
                        .elapsed = timeout});
}

[[noreturn]] inline void throwQueueEmpty(std::string_view key) {
  throw DistQueueEmptyError({.reason = Reason::USAGE,
                             .what = str("queue is empty: ", key),
                             .hint = "wait for an element with block=true",
                             .op = "queue_pop"});
}

inline Bytes toBytes(std::string_view text) {
  const ByteView view = asBytes(text);
  return {view.begin(), view.end()};
}

}  // namespace unisono

// What all stores check and say alike.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/store/store.hpp"

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/str.hpp"

namespace unisono {

/// `timeout`, or UsageError when it is negative.
Milliseconds checkedTimeout(Milliseconds timeout);

/// What a store's timeout is before anybody sets it: UNISONO_TIMEOUT, or `usual`.
Milliseconds defaultTimeout(Milliseconds usual = Store::kDefaultTimeout);

/// DistStoreError, as c10d has it, unless there is one value for each key.
inline void checkSameSize(std::span<const std::string> keys, std::span<const Bytes> values) {
  if (keys.size() != values.size()) {
    throw DistStoreError({.reason = Reason::USAGE,
                          .what = str("multiSet keys and values vectors must be of same size, but "
                                      "there are ",
                                      keys.size(), " keys and ", values.size(), " values"),
                          .hint = "give one value for each key",
                          .op = "multi_set"});
  }
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

/// `key` as errors show it: a long one without its middle, and with its length.
inline std::string shownKey(std::string_view key) {
  constexpr std::size_t kMost = 200;
  constexpr std::size_t kHead = 120;
  constexpr std::size_t kTail = 40;
  if (key.size() <= kMost) {
    return std::string(key);
  }
  const auto begins = [&](std::size_t at) {
    return (static_cast<unsigned char>(key[at]) & 0xC0U) != 0x80U;
  };
  std::size_t head = kHead;
  std::size_t tail = key.size() - kTail;
  for (int i = 0; i < 3; ++i) {  // not inside a character of UTF-8
    head -= begins(head) ? 0 : 1;
    tail += begins(tail) ? 0 : 1;
  }
  return str(key.substr(0, head), "…(", key.size(), " bytes)…", key.substr(tail));
}

/// The same for several: "a, b and 3 more".
inline std::string shownKeys(std::span<const std::string> keys, std::size_t most = 16) {
  std::vector<std::string> shown;
  for (const std::string& key : keys.first(std::min(keys.size(), most))) {
    shown.push_back(shownKey(key));
  }
  const std::size_t left = keys.size() - shown.size();
  return left == 0 ? join(shown, ", ") : str(join(shown, ", "), " and ", left, " more");
}

/// "Wait timeout": the error of every wait that gave up, on whatever store.
[[noreturn]] inline void throwWaitTimeout(std::string_view op, std::span<const std::string> keys,
                                          Milliseconds timeout, std::string_view why = {},
                                          std::string_view host = {}) {
  throw DistStoreError({.reason = Reason::TIMEOUT,
                        .what = str(op, " gave up: wait timeout after ", timeout.count(),
                                    "ms, keys: ", shownKeys(keys), why.empty() ? "" : ". ", why),
                        .hint = "is the rank that sets it running? raise the timeout if it is slow",
                        .op = std::string(op),
                        .host = std::string(host),
                        .elapsed = timeout});
}

[[noreturn]] inline void throwBarrierTimeout(std::string_view key, std::int64_t worldSize,
                                             Milliseconds timeout, std::string_view host = {}) {
  throw DistStoreError({.reason = Reason::TIMEOUT,
                        .what = str("barrier timeout after ", timeout.count(), "ms, key: ",
                                    shownKey(key), ". Fewer than ", worldSize, " arrived"),
                        .hint = "look for the ranks that did not arrive",
                        .op = "barrier",
                        .host = std::string(host),
                        .elapsed = timeout});
}

[[noreturn]] inline void throwQueueEmpty(std::string_view key) {
  throw DistQueueEmptyError({.reason = Reason::USAGE,
                             .what = str("queue is empty: ", shownKey(key)),
                             .hint = "wait for an element with block=true",
                             .op = "queue_pop"});
}

inline Bytes toBytes(std::string_view text) {
  const ByteView view = asBytes(text);
  return {view.begin(), view.end()};
}

}  // namespace unisono

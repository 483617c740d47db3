#include "unisono/store/store.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/bytes.hpp"
#include "base/env.hpp"
#include "store/common.hpp"
#include "store/one_deadline.hpp"

namespace unisono {
namespace {

UNISONO_KNOB(
    double, kTimeout, "UNISONO_TIMEOUT", "0",
    "seconds after which waiting calls give up; 0 = 300 for stores and connecting, 1800 for "
    "operations of groups");

[[noreturn]] void refuse(std::string_view what) {
  throw NotSupportedError({.reason = Reason::USAGE,
                           .what = std::string(what),
                           .hint = "use a TCPStore or HashStore, which offer every operation"});
}

// Until when the thread is in a call that is made of others; null when it is in none.
thread_local const Deadline* callEnds = nullptr;

}  // namespace

OneDeadline::OneDeadline(Deadline deadline) noexcept : deadline_(deadline), outer_(callEnds) {
  callEnds = outer_ != nullptr && *outer_ < deadline_ ? outer_ : &deadline_;
}

OneDeadline::~OneDeadline() {
  callEnds = outer_;
}

Milliseconds checkedTimeout(Milliseconds timeout) {
  UNISONO_CHECK(timeout.count() >= 0, "a store timeout must not be negative, but is ",
                timeout.count(), "ms; 0 means one check without waiting");
  return timeout;
}

Milliseconds defaultTimeout(Milliseconds usual) {
  const double seconds = kTimeout.value();
  if (seconds < 0) {
    throw UsageError({.reason = Reason::CONFIG,
                      .what = str("the environment variable ", kTimeout.name, " is ", seconds,
                                  ", but a timeout must not be negative"),
                      .hint = str("unset it, or set: ", kTimeout.doc)});
  }
  // Not less than 1 ms: 0 would mean not to wait at all.
  return seconds > 0 ? std::max(fromSeconds(seconds), Milliseconds(1)) : usual;
}

struct Store::State {
  std::atomic<std::int64_t> timeoutMs;
};

Store::Store() : state_(new State{defaultTimeout().count()}) {}
Store::~Store() = default;

std::chrono::milliseconds Store::timeout() const {
  const Milliseconds own(state_->timeoutMs.load(std::memory_order_relaxed));
  return callEnds == nullptr ? own : std::min(own, callEnds->remaining());
}

void Store::setTimeout(std::chrono::milliseconds timeout) {
  state_->timeoutMs.store(checkedTimeout(timeout).count(), std::memory_order_relaxed);
}

void Store::set(std::string_view key, std::string_view value) {
  set(key, asBytes(value));
}

std::string Store::getString(std::string_view key) {
  return std::string(asText(get(key)));
}

Bytes Store::compareSet(std::string_view, BytesView, BytesView) {
  refuse("compareSet is not offered by this store: Not implemented");
}

std::string Store::compareSet(std::string_view key, std::string_view expected,
                              std::string_view desired) {
  return std::string(asText(compareSet(key, asBytes(expected), asBytes(desired))));
}

Store::Swap Store::trySwap(std::string_view key, BytesView expected, BytesView desired) {
  Bytes value = compareSet(key, expected, desired);
  const bool perhaps = std::equal(value.begin(), value.end(), desired.begin(), desired.end());
  return {.value = std::move(value), .stored = perhaps ? std::nullopt : std::optional(false)};
}

std::int64_t Store::deletePrefix(std::string_view prefix) {
  const OneDeadline deadline(timeout());
  std::int64_t deleted = 0;
  for (const std::string& key : listKeys()) {
    if (key.starts_with(prefix) && deleteKey(key)) {
      ++deleted;
    }
  }
  return deleted;
}

std::vector<std::string> Store::listKeys() {
  refuse("listKeys support is not implemented");
}

void Store::append(std::string_view key, BytesView value) {
  const std::string name(key);
  const Milliseconds limit = timeout();
  const OneDeadline deadline(limit);
  Bytes expected = check({name}) ? get(key) : Bytes{};
  // That the new value came back does not mean that it was stored: another may have appended the
  // same at the same moment. Only where the store cannot tell it has to be taken for that.
  for (;;) {
    Bytes desired = expected;
    desired.insert(desired.end(), value.begin(), value.end());
    auto [now, stored] = trySwap(key, expected, desired);
    if (stored.value_or(now == desired)) {
      return;
    }
    if (deadline.expired()) {
      throw DistStoreError({.reason = Reason::TIMEOUT,
                            .what = str("append timeout after ", limit.count(),
                                        "ms: others kept changing key ", key),
                            .hint = "append to keys of your own, or raise the timeout",
                            .op = "append"});
    }
    // For a key that was deleted meanwhile compareSet returns `expected`: start from nothing.
    expected = now == expected && !check({name}) ? Bytes{} : std::move(now);
  }
}

void Store::append(std::string_view key, std::string_view value) {
  append(key, asBytes(value));
}

std::vector<Bytes> Store::multiGet(std::span<const std::string> keys) {
  const OneDeadline deadline(timeout());
  wait(keys, timeout());
  std::vector<Bytes> values;
  values.reserve(keys.size());
  for (const std::string& key : keys) {
    values.push_back(get(key));
  }
  return values;
}

void Store::multiSet(std::span<const std::string> keys, std::span<const Bytes> values) {
  checkSameSize(keys, values);
  const OneDeadline deadline(timeout());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    set(keys[i], values[i]);
  }
}

void Store::queuePush(std::string_view, BytesView) {
  refuse("queue support is not implemented");
}

void Store::queuePush(std::string_view key, std::string_view value) {
  queuePush(key, asBytes(value));
}

Bytes Store::queuePop(std::string_view, bool) {
  refuse("queue support is not implemented");
}

std::int64_t Store::queueLen(std::string_view) {
  refuse("queue support is not implemented");
}

void Store::barrier(std::string_view key, std::int64_t worldSize,
                    std::chrono::milliseconds timeout) {
  const OneDeadline deadline(checkedTimeout(timeout));
  const std::string members = str(key, "/num_members");
  const std::string last = str(key, "/last_member");
  try {
    if (add(members, 1) >= worldSize) {
      set(last, std::string_view("1"));
    }
    wait({last}, deadline.remaining());
  } catch (const DistStoreError& error) {
    if (error.reason() != Reason::TIMEOUT) {
      throw;
    }
    ErrorFacts facts = error.facts();  // of what was left of the timeout
    facts.what = str("barrier timeout after ", timeout.count(), "ms, key: ", shownKey(key), ". ",
                     facts.what);
    facts.op = "barrier";
    facts.elapsed = timeout;
    throw DistStoreError(facts);
  }
}

StoreTimeoutGuard::StoreTimeoutGuard(Store& store, std::chrono::milliseconds timeout)
    : store_(store), before_(store.timeout()) {
  store_.setTimeout(timeout);
}

StoreTimeoutGuard::~StoreTimeoutGuard() {
  store_.setTimeout(before_);
}

}  // namespace unisono

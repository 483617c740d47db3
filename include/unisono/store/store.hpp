// Store: the key-value service through which the ranks of a job find each other.
//
// Every rank talks to the same logical store. Keys are text, values are opaque
// bytes. A store carries start-up and control traffic, never tensor data.
//
//   auto store = std::make_shared<TCPStore>("10.0.0.1", TCPStoreOptions{.isServer = rank == 0});
//   store->set("addr/0", "10.0.0.1:4711");
//   const Bytes first = store->get("addr/0");  // waits until somebody has set it
//
// Thread safety: every method may be called from any thread, and a call that waits (get,
// wait, a blocking queuePop, barrier) does not hold up calls of other threads on the same
// object. Destroying a store ends the calls inside it with SHUTDOWN before it goes.
//
// Timeouts: calls that wait give up after timeout(), or the timeout they are given. 0 means
// one check without waiting; a negative timeout is a UsageError. No call outlives its timeout
// by more than a moment, also when the other side does not answer at all.
//
// Errors: UsageError when the arguments are wrong; DistStoreError when the store refuses the
// call (LIMIT, USAGE) or its timeout passes (TIMEOUT); DistNetworkError (STORE_LOST) when the
// connection is lost, after which every call on this object throws the same error. After
// fork() the child's copy throws UsageError (FORKED).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/api.hpp"

namespace unisono {

using Bytes = std::vector<std::uint8_t>;
using BytesView = std::span<const std::uint8_t>;

class UNISONO_API Store {
 public:
  /// Used unless the environment (UNISONO_TIMEOUT, seconds) or setTimeout() says otherwise.
  static constexpr std::chrono::milliseconds kDefaultTimeout = std::chrono::minutes(5);

  Store();
  virtual ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Sets `key` to `value`, whatever was there, and wakes those who wait for it.
  virtual void set(std::string_view key, BytesView value) = 0;
  void set(std::string_view key, std::string_view value);

  /// Returns the value of `key`, waiting up to timeout() for it to be set.
  virtual Bytes get(std::string_view key) = 0;
  std::string getString(std::string_view key);

  /// Sets `key` to `desired` if its value is `expected` (or it is missing and `expected` is
  /// empty). Returns the value after that: `desired`, or the one that stood in the way; for a
  /// missing key and a non-empty `expected`, `expected` itself.
  virtual Bytes compareSet(std::string_view key, BytesView expected, BytesView desired);
  std::string compareSet(std::string_view key, std::string_view expected, std::string_view desired);

  /// As compareSet(), and tells whether it was this call that stored `desired`: the value alone
  /// does not, when two callers want the same. `stored` is empty where that cannot be known, on a
  /// server of another kind that returned `desired`.
  struct Swap {
    Bytes value;
    std::optional<bool> stored;
  };
  virtual Swap trySwap(std::string_view key, BytesView expected, BytesView desired);

  /// Adds `delta` to the integer at `key` (0 when missing or empty) and returns the sum. It is
  /// kept as decimal text: get() returns the digits. A value that is no number, or a sum
  /// beyond int64, is refused and changes nothing.
  virtual std::int64_t add(std::string_view key, std::int64_t delta) = 0;

  /// Removes `key`; true when it was there.
  virtual bool deleteKey(std::string_view key) = 0;

  /// Removes all keys that begin with `prefix`, one after the other: somebody else may see some of
  /// them gone and some not yet. Returns how many there were.
  virtual std::int64_t deletePrefix(std::string_view prefix);

  /// True when all of `keys` are set now. A queue counts while it holds something.
  virtual bool check(std::span<const std::string> keys) = 0;
  bool check(std::initializer_list<std::string> keys) { return check(std::span(keys)); }

  /// Waits until all of `keys` are set at one moment.
  virtual void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) = 0;
  void wait(std::span<const std::string> keys) { wait(keys, timeout()); }
  void wait(std::initializer_list<std::string> keys) { wait(std::span(keys), timeout()); }
  void wait(std::initializer_list<std::string> keys, std::chrono::milliseconds timeout) {
    wait(std::span(keys), timeout);
  }

  /// How many keys there are, the store's own included (as in c10d).
  virtual std::int64_t numKeys() = 0;

  /// The keys set by users, in no particular order.
  virtual std::vector<std::string> listKeys();

  /// Appends `value` to what is at `key`, or sets it.
  virtual void append(std::string_view key, BytesView value);
  void append(std::string_view key, std::string_view value);

  /// The values of all `keys`, in order, waiting up to timeout() for all of them.
  virtual std::vector<Bytes> multiGet(std::span<const std::string> keys);

  /// Sets all `keys`, each to the value at the same place.
  virtual void multiSet(std::span<const std::string> keys, std::span<const Bytes> values);

  /// Appends `value` to the queue called `key` (queues and keys are separate).
  virtual void queuePush(std::string_view key, BytesView value);
  void queuePush(std::string_view key, std::string_view value);

  /// Takes the oldest element of the queue. With `block` waits up to timeout() for one;
  /// otherwise throws DistQueueEmptyError when there is none.
  virtual Bytes queuePop(std::string_view key, bool block = true);

  /// How many elements the queue holds; 0 when there is no such queue.
  virtual std::int64_t queueLen(std::string_view key);

  /// Waits until `worldSize` callers have arrived at `key`. Use a fresh key each time.
  virtual void barrier(std::string_view key, std::int64_t worldSize,
                       std::chrono::milliseconds timeout);
  void barrier(std::string_view key, std::int64_t worldSize) { barrier(key, worldSize, timeout()); }

  /// True when append, multiGet and multiSet are done by the store in one step.
  virtual bool hasExtendedApi() const { return false; }

  /// The host that serves it, by name or address; empty when there is none. Ranks that meet by a
  /// store are reached by the network that leads there.
  virtual std::string serverHost() const { return {}; }

  /// Another client of the same data, with connections and a timeout of its own.
  virtual std::shared_ptr<Store> clone() = 0;

  /// How long calls wait that are not given a timeout. A change holds for later calls.
  virtual std::chrono::milliseconds timeout() const;
  virtual void setTimeout(std::chrono::milliseconds timeout);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

using StorePtr = std::shared_ptr<Store>;

/// Sets a store's timeout for as long as it lives, then restores the old one.
class UNISONO_API StoreTimeoutGuard {
 public:
  StoreTimeoutGuard(Store& store, std::chrono::milliseconds timeout);
  ~StoreTimeoutGuard();
  StoreTimeoutGuard(const StoreTimeoutGuard&) = delete;
  StoreTimeoutGuard& operator=(const StoreTimeoutGuard&) = delete;

 private:
  Store& store_;
  const std::chrono::milliseconds before_;
};

}  // namespace unisono

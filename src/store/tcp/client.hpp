// StoreClient: the calls of a store, as requests to a server.
//
// Several threads may be inside at once. Each takes a connection for as long as it
// needs it; a further one is opened when all are taken, so that a thread that waits
// holds up nobody. There is a limit, but only calls that may wait come up against it:
// a write or a question that is answered at once always finds a connection. To arrive
// at a barrier is to end the waiting of others, so those who are there are not counted.
// A get, wait or blocking pop counts as waiting even if what it asks for is there: a
// thread that reads before it writes queues behind as many waiting threads as there may
// be (240), and should look with check() or a store object of its own instead.
//
// Read-your-writes: a write that has returned is seen by every later call on this
// object, whichever connection that uses. Writes are not waited for, so a connection
// with unacknowledged writes is *dirty*, from the moment a writer takes it; at most
// one is, and until it is clean only it is used. When it breaks before (no answer in
// time, an interrupt), it is kept: the next call first reads from it what became of
// the writes, and is told STORE_LOST when that cannot be known any more.
//
// A server of ours may refuse a write (it is full). Since nobody waits for that, the
// next call that is answered throws the refusal, and has then changed nothing itself.
//
// Keys here are wire keys: TCPStore puts the "/" in front.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/store/store.hpp"

#include "base/mutex.hpp"
#include "net/address.hpp"
#include "net/secret.hpp"
#include "store/tcp/connection.hpp"

namespace unisono::tcp {

/// What compareSet() found; `stored` is empty when the server does not tell.
struct Swapped {
  Bytes value;
  std::optional<bool> stored;
};

class StoreClient {
 public:
  struct Options {
    std::string host;
    std::uint16_t port = 0;
    bool syncWrites = false;
    std::optional<Key> key = std::nullopt;  // what both ends are to know

    HostPort place() const { return {host, port}; }
  };

  /// Connects and says hello; retries until `latest`, which errors call `connectTimeout`.
  StoreClient(Options options, Milliseconds connectTimeout, Deadline latest);
  /// On a connection that has been made already; further ones are made as `options` say.
  StoreClient(Options options, std::unique_ptr<Connection> first);
  /// Sees to it that the writes that have returned are done: waits for their confirmation as long
  /// as the server goes on giving it. Says so in the log when one is not.
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  void set(const std::string& key, std::string_view value, Milliseconds timeout);
  void append(const std::string& key, std::string_view value, Milliseconds timeout);
  void push(const std::string& key, std::string_view value, Milliseconds timeout);
  void multiSet(std::span<const std::string> keys, std::span<const Bytes> values,
                Milliseconds timeout);
  std::int64_t add(const std::string& key, std::int64_t delta, Milliseconds timeout);
  Swapped compareSet(const std::string& key, std::string_view expected, std::string_view desired,
                     Milliseconds timeout);
  bool check(std::span<const std::string> keys, Milliseconds timeout);
  bool remove(const std::string& key, Milliseconds timeout);
  std::int64_t removePrefix(const std::string& prefix, Milliseconds timeout);
  std::int64_t numKeys(Milliseconds timeout);
  /// What a server of ours tells of itself; empty when it is not one.
  std::string stats(Milliseconds timeout);
  std::vector<std::string> listKeys(Milliseconds timeout);
  std::int64_t queueLength(const std::string& key, Milliseconds timeout);
  std::optional<Bytes> tryPop(const std::string& key, Milliseconds timeout);

  // These wait, up to `timeout`.
  Bytes get(const std::string& key, Milliseconds timeout);
  std::vector<Bytes> multiGet(std::span<const std::string> keys, Milliseconds timeout);
  void wait(std::span<const std::string> keys, Milliseconds timeout);
  Bytes pop(const std::string& key, Milliseconds timeout);
  void barrier(const std::string& key, std::int64_t worldSize, Milliseconds timeout);

  /// Another client of the same server; throws STORE_LOST when that is gone.
  std::unique_ptr<StoreClient> twin(Milliseconds timeout) UNISONO_EXCLUDES(mutex_);

  /// Ends the calls inside, with SHUTDOWN; later ones fail at once.
  void shutdown() noexcept;

  const ServerTraits& traits() const noexcept { return traits_; }
  /// "SocketImpl(fd=3, addr=[localhost]:40172, remote=[localhost]:29500)"
  const std::string& describeSocket() const noexcept { return socketText_; }

 private:
  /// What a connection is taken for.
  enum class Purpose : std::uint8_t { ASK, WRITE, WAIT, ARRIVE };

  struct Slot {
    // Null while it is being opened; broken while it is not known what became of writes on it.
    std::unique_ptr<Connection> connection;
    bool busy = true;
    bool dirty = false;
    Purpose purpose = Purpose::ASK;  // while busy
  };

  /// A connection taken for one call.
  class Lease {
   public:
    Lease(StoreClient& client, const Call& call, Purpose purpose)
        : client_(client), slot_(client.take(call, purpose)) {}
    ~Lease() { client_.giveBack(slot_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Connection& operator*() const noexcept { return *slot_.connection; }
    Connection* operator->() const noexcept { return slot_.connection.get(); }
    Slot& slot() const noexcept { return slot_; }

   private:
    StoreClient& client_;
    Slot& slot_;
  };

  // Connections (client.cpp).
  std::unique_ptr<Connection> connectAgain(const Call& call);
  void requireNotLost() UNISONO_EXCLUDES(mutex_);
  Slot& take(const Call& call, Purpose purpose) UNISONO_EXCLUDES(mutex_);
  Slot* freeSlot(Purpose purpose) UNISONO_REQUIRES(mutex_);
  void connectSlot(Slot& slot, const Call& call) UNISONO_EXCLUDES(mutex_);
  void clearDoubt(Slot& slot, const Call& call) UNISONO_EXCLUDES(mutex_);
  Call untilClosing(Call call) const;
  void giveBack(Slot& slot) noexcept UNISONO_EXCLUDES(mutex_);
  void setClean(Slot& slot) noexcept UNISONO_EXCLUDES(mutex_);
  [[noreturn]] void rethrow(const DistError& error) UNISONO_EXCLUDES(mutex_);

  /// Runs `body`; remembers when the store is lost in it, and says so when this client was closed.
  template <typename Body>
  auto watched(Body body) {
    try {
      return body();
    } catch (const DistError& error) {
      rethrow(error);
    }
  }
  /// Runs `body` with a connection.
  template <typename Body>
  auto during(const Call& call, Body body, Purpose purpose = Purpose::ASK) {
    return watched([&] {
      const Lease lease(*this, call, purpose);
      return body(lease);
    });
  }

  // Requests and replies (client.cpp).
  void writeOnly(const Call& call, const RequestWriter& request);
  std::optional<ErrorFacts> readAcknowledgements(const Lease& lease, const Call& call);
  void fence(const Lease& lease, const Call& call);
  void settle(const Lease& lease, const Call& call);

  /// Sends a request that is answered at once, and returns what `read` makes of the reply.
  template <typename Read>
  auto exchange(const Lease& lease, const Call& call, const RequestWriter& request, Read read) {
    lease->send(request.bytes(), call);
    const std::optional<ErrorFacts> refused = readAcknowledgements(lease, call);
    auto reply = read(*lease);
    lease->unfenced = false;
    setClean(lease.slot());
    throwRefused(refused);
    return reply;
  }
  template <typename Read>
  auto ask(const Call& call, const RequestWriter& request, Read read) {
    return during(call, [&](const Lease& lease) { return exchange(lease, call, request, read); });
  }
  /// As ask(), for a request that changes something.
  template <typename Read>
  auto change(const Call& call, const RequestWriter& request, Read read) {
    return during(call, [&](const Lease& lease) {
      settle(lease, call);
      return exchange(lease, call, request, read);
    });
  }
  static void throwRefused(const std::optional<ErrorFacts>& refused);

  // Waiting (client_wait.cpp).
  std::optional<ErrorFacts> sendWaiting(const Lease& lease, const Call& call,
                                        const RequestWriter& request);
  static std::uint8_t firstByte(Connection& connection, const Call& call, Deadline until,
                                bool* canceled);
  template <typename Read>
  auto awaitAnswer(const Lease& lease, const Call& call, const RequestWriter& request, Read read);
  Bytes popStock(const std::string& key, const Call& call);
  static std::optional<Bytes> readElement(Connection& connection, const Call& call);
  [[noreturn]] static Bytes giveUp(const Call& call, const std::string& place);

  // Parts of calls.
  bool removeIn(const Call& call, const std::string& key);
  std::int64_t removeOneByOne(const std::string& prefix, const Call& call);
  std::vector<std::string> listKeysIn(const Call& call);
  void requireQueues(const Call& call);
  bool askForQueues(const Call& call);
  void checkKey(const Call& call, std::string_view key) const;
  void checkKeys(const Call& call, std::span<const std::string> keys) const;
  void checkValue(const Call& call, std::uint64_t size) const;
  void checkCommand(const Call& call, std::uint64_t size) const;
  [[noreturn]] void overLimit(const Call& call, std::string_view what, std::uint64_t is,
                              std::uint64_t most) const;

  const Options options_;
  ServerTraits traits_;
  std::string socketText_;

  Mutex mutex_;
  CondVar changed_;  // a slot became free or clean, or the store was lost
  std::list<Slot> slots_ UNISONO_GUARDED_BY(mutex_);
  std::optional<ErrorFacts> lost_ UNISONO_GUARDED_BY(mutex_);
  std::atomic<bool> closing_{false};  // set under the mutex; read also without, to end waits
  std::optional<bool> hasQueues_ UNISONO_GUARDED_BY(mutex_);  // of the server, once it was asked
};

}  // namespace unisono::tcp

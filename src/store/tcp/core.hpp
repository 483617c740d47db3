// StoreCore: the store server without sockets, threads or clocks.
//
// Bytes of numbered connections go in, bytes for them come out:
//
//   core.open(7, "127.0.0.1:4711", now);
//   core.receive(7, bytes, now);
//   for (ConnectionId id : core.takeTouched()) { … core.unsent(id) … core.sent(id, n, now) … }
//
// Both servers (libuv, poll), the tests and the simulation drive the same core.
// Thread safety: none; one thread, or the owner serialises.
#pragma once

#include <array>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "store/kv_table.hpp"
#include "store/tcp/session.hpp"

namespace unisono::tcp {

class StoreCore {
 public:
  /// `start` is when the server began to serve. With a `key`, it serves only those who prove that
  /// they know it, see Entrance, or need not.
  explicit StoreCore(const StoreLimits& limits = {}, TimePoint start = {},
                     const std::optional<Key>& key = std::nullopt);

  /// A connection has been accepted; `peer` is its address for messages. If it `needsNoProof`, it
  /// may say hello as PyTorch's clients do, also when there is a key.
  void open(ConnectionId id, std::string peer, TimePoint now, bool needsNoProof = false);

  /// Bytes have arrived.
  void receive(ConnectionId id, std::string_view bytes, TimePoint now);

  /// The connection is gone; whatever it waited for or half said is forgotten.
  void close(ConnectionId id);

  /// Time has passed: finds those who never said hello, stopped in the middle of a request,
  /// or do not take their replies. Call a few times a second.
  void tick(TimePoint now);

  /// Goes on with requests about very many keys, which are carried out a slice at a time: with at
  /// least one slice, and with as many keys as all requests were about since the last call, so
  /// that neither side has to wait for long. True when there is more to do: call again, after
  /// whatever else is due.
  bool work(TimePoint now);

  /// Connections that have something to send or are to be closed, since the last call.
  std::vector<ConnectionId> takeTouched();
  /// The first of them, or none.
  std::optional<ConnectionId> nextTouched();

  /// What is to be sent to `id`; valid until the next call that changes anything.
  std::string_view unsent(ConnectionId id) const;

  /// The first `count` bytes of unsent() have been sent.
  void sent(ConnectionId id, std::size_t count, TimePoint now);

  /// False while the connection has too many replies outstanding to be read from, or all together
  /// have sent too much of requests that are not complete.
  bool wantsRead(ConnectionId id) const;

  /// Why `id` is to be closed once unsent() is sent, or null.
  const Status* closing(ConnectionId id) const;

  /// What the log should say when `id` ends its connection now, if anything.
  std::optional<Status> whyItLeft(ConnectionId id) const;

  /// The address of `id` as it was given to open().
  std::string_view peer(ConnectionId id) const;

  std::size_t connectionCount() const noexcept { return sessions_.size(); }
  const StoreLimits& limits() const noexcept { return limits_; }
  const KvTable& table() const noexcept { return table_; }
  /// What is served now and has been since the start, as JSON; docs/wire/tcp_store.md has it.
  std::string statsText(TimePoint now) const;
  std::uint64_t unsentBytes() const noexcept { return unsentBytes_; }
  std::uint64_t partialBytes() const noexcept { return partialBytes_; }

 private:
  // Letting them in (entrance.cpp).
  Status takeHello(Session& session, std::string_view* bytes, TimePoint now);
  void validate(Session& session);

  // Reading requests (core.cpp).
  void carryOut(Session& session, std::string_view bytes, TimePoint now);
  Status takeRequest(Session& session, Request& request);
  void sweep(TimePoint now);
  void settle(Session& session, TimePoint now);
  void countPartial(Session& session);
  Session* largestPartial(bool paused) const;
  void limitPartial();
  void resumePaused();
  void resume(Session& session);
  void fail(Session& session, Status why);
  void touch(Session& session);
  Session* find(ConnectionId id) const;
  void lendBuffer(Session& session);
  void giveBack(std::string& buffer);

  // Carrying them out (execute.cpp). A failure closes the connection.
  Status execute(Session& session, const Request& request);
  Status write(Session& session, const Request& request);
  Status refuseWrite(Session& session, const Request& request, const Status& why);
  Status add(Session& session, const Request& request);
  Status compareSet(Session& session, const Request& request);
  Status getStock(Session& session, const Request& request);
  Status admitReply(const Session& session, std::uint64_t bytes) const;
  Status waitForKeys(Session& session, const Request& request);
  Status popQueue(Session& session, const Request& request);
  Status popWaiting(Session& session, const Request& request);
  Status arrive(Session& session, const Request& request);
  void check(Session& session, const Request& request);
  Status listKeys(Session& session, const Request& request);
  void removePrefix(Session& session, const Request& request);
  void putValues(Session& session);
  void finishWait(Session& session, const std::string* element);
  void finishGet(Session& session, std::span<const std::string_view> keys);
  bool lookUp(std::span<const std::string_view> keys);
  void putFound(Session& session);
  Status refuse(Session& session, const Request& request, const Status& why);
  void releaseClaim(Session& session);
  void answerWakes(TimePoint now);
  void answerWake(Session& session, const Wake& wake, TimePoint now);

  const StoreLimits limits_;
  const std::optional<Key> key_;
  const std::string capabilities_;
  KvTable table_;
  std::unordered_map<ConnectionId, std::unique_ptr<Session>> sessions_;
  mutable Session* lastFound_ = nullptr;
  std::list<ConnectionId> unvalidated_;  // oldest first
  const TimePoint start_;
  std::array<std::uint64_t, kShapes.size()> requests_{};  // carried out, by shape
  std::uint64_t accepted_ = 0;                            // connections, ever
  std::deque<ConnectionId> touched_;                      // first come, first served
  std::vector<ConnectionId> claims_;  // sessions that were woken to pop, oldest first
  TimePoint latest_;                  // the time of the last event that came with one
  TimePoint nextSweep_{};
  std::size_t spent_ = 0;                 // keys that requests were about since the last work()
  std::vector<ConnectionId> freed_;       // sessions whose requests can be carried out again
  Request request_;                       // reused, so that its vectors keep their memory
  std::vector<std::string_view> values_;  // likewise: those that are being answered with
  std::vector<std::string> spares_;       // buffers for many replies at once; see lendBuffer()
  std::uint64_t unsentBytes_ = 0;
  std::uint64_t partialBytes_ = 0;
  bool anyPaused_ = false;
};

}  // namespace unisono::tcp

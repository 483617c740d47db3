#include "store/tcp/client.hpp"

#include <algorithm>
#include <utility>

#include "base/bytes.hpp"
#include "base/gate.hpp"
#include "base/log.hpp"
#include "base/str.hpp"
#include "base/wait.hpp"
#include "store/common.hpp"
#include "store/tcp/dial.hpp"

namespace unisono::tcp {
namespace {

// More writes than this are not left unacknowledged, so that the server never has to keep more
// than a few kilobytes of answers for us.
constexpr std::size_t kMostUnacknowledged = 4096;

// Threads beyond this many wait for a connection to become free; those that wait for others leave
// some to those that do not. Those at a barrier come on top.
constexpr std::size_t kMostConnections = 256;
constexpr std::size_t kMostWaiting = kMostConnections - 16;

constexpr std::uint32_t kFenceNonce = 0x756e6973;

// How long a client that goes waits for the server to confirm one more of its writes.
constexpr Milliseconds kFarewell(2000);

Call connectCall(Milliseconds timeout, Deadline latest) {
  Call call("connect", {}, timeout);
  call.until = std::min(call.until, latest);
  call.deadline = std::max(call.until, Deadline::after(kLeastAnswerTime));
  return call;
}

/// Reads the verdict of an earlier write; its refusal, if it was refused.
std::optional<ErrorFacts> readVerdict(Connection& connection, const Call& call) {
  const Call earlier("an earlier write", {}, call.timeout);
  const std::uint8_t verdict = connection.byte(call);
  --connection.unacknowledged;
  if (verdict == static_cast<std::uint8_t>(Verdict::REFUSED)) {
    return connection.refusal(earlier);
  }
  if (verdict != static_cast<std::uint8_t>(Verdict::DONE)) {
    connection.outOfStep(earlier, str("the verdict ", verdict));
  }
  return std::nullopt;
}

/// Reads the verdicts of writes that nobody will ask about any more. Without it they would often
/// be lost: the kernel resets a connection that is closed with something unread on it, and throws
/// away what it has not sent yet.
void confirmWrites(Connection& connection) noexcept {
  const std::size_t before = connection.unacknowledged;
  try {
    std::optional<ErrorFacts> refused;
    while (connection.unacknowledged > 0) {
      const auto verdict = readVerdict(connection, Call("the last write", {}, kFarewell));
      refused = refused ? refused : verdict;
    }
    if (refused) {
      UNISONO_LOG(WARN, "store", "the client of ", connection.place(), " is gone, but ",
                  refused->what);
    }
  } catch (const DistError& error) {
    UNISONO_LOG(WARN, "store", "the client of ", connection.place(), " is gone, and up to ", before,
                " of its last writes with it: ", error.facts().what);
  } catch (...) {
    return;  // interrupted, or no memory for a message
  }
}

}  // namespace

StoreClient::StoreClient(Options options, Milliseconds connectTimeout, Deadline latest)
    : StoreClient(options,
                  dial(options.place(), options.key, connectCall(connectTimeout, latest))) {}

StoreClient::StoreClient(Options options, std::unique_ptr<Connection> first)
    : options_(std::move(options)) {
  traits_ = first->traits;
  socketText_ = str("SocketImpl(fd=", first->socket().fd(),
                    ", addr=", first->socket().localAddress().textForRepr(),
                    ", remote=", first->socket().peerAddress().textForRepr(), ")");
  const MutexLock lock(mutex_);
  slots_.push_back({.connection = std::move(first), .busy = false, .dirty = false});
}

StoreClient::~StoreClient() {
  std::list<Slot> slots;
  {
    const MutexLock lock(mutex_);
    if (!lost_) {  // or else it has been said
      slots.swap(slots_);
    }
  }
  for (const Slot& slot : slots) {
    if (slot.connection && slot.connection->canConfirm()) {
      confirmWrites(*slot.connection);
    }
  }
}

StoreClient::Slot* StoreClient::freeSlot(Purpose purpose) {
  Slot* free = nullptr;
  std::size_t waiting = 0;
  std::size_t arrived = 0;
  for (Slot& slot : slots_) {
    if (slot.dirty) {  // only this one may be used, see the head of client.hpp
      return slot.busy ? nullptr : &slot;
    }
    free = free == nullptr && !slot.busy ? &slot : free;
    waiting += slot.busy && slot.purpose == Purpose::WAIT ? 1 : 0;
    arrived += slot.busy && slot.purpose == Purpose::ARRIVE ? 1 : 0;
  }
  if (purpose == Purpose::WAIT && waiting >= kMostWaiting) {
    return nullptr;
  }
  const bool more = purpose == Purpose::ARRIVE || slots_.size() - arrived < kMostConnections;
  if (free == nullptr && more) {
    free = &slots_.emplace_back();
  }
  return free;
}

StoreClient::Slot& StoreClient::take(const Call& call, Purpose purpose) {
  Slot* slot = nullptr;
  {
    const MutexLock lock(mutex_);
    CondWaitable on(changed_, mutex_);
    const WaitContext wait{.deadline = call.deadline,
                           .subject = [&] { return str("another thread's ", call.op); }};
    const auto ready = [&]() UNISONO_NO_ANALYSIS {  // waitUntil looks with the lock held
      slot = closing_ || lost_ ? nullptr : freeSlot(purpose);
      return closing_ || lost_ || slot != nullptr;
    };
    const bool inTime = waitUntil(ready, wait, on);
    if (closing_) {
      Gate::refuse("TCPStore");
    }
    if (lost_) {
      throw DistNetworkError(*lost_);
    }
    if (!inTime) {
      throw DistStoreError(
          {.reason = Reason::TIMEOUT,
           .what = str(call.op, " gave up: wait timeout after ", call.timeout.count(),
                       "ms behind other threads' calls on this store"),
           .hint = "raise the timeout, or give each thread a store of its own: clone()",
           .op = std::string(call.op)});
    }
    slot->busy = true;
    slot->purpose = purpose;
    slot->dirty = slot->dirty || purpose == Purpose::WRITE;
  }
  if (slot->connection && slot->connection->broken()) {
    clearDoubt(*slot, call);
  }
  if (!slot->connection) {
    connectSlot(*slot, call);
  }
  return *slot;
}

/// Finds out what became of the writes on a connection that had to be given up, and lets it go.
void StoreClient::clearDoubt(Slot& slot, const Call& call) {
  try {
    Connection& connection = *slot.connection;
    if (!connection.canConfirm()) {
      connection.unconfirmed(call);
    }
    std::optional<ErrorFacts> refused;
    while (connection.unacknowledged > 0) {
      const std::optional<ErrorFacts> verdict = readVerdict(connection, call);
      refused = refused ? refused : verdict;
    }
    if (connection.unfenced) {
      static_cast<void>(connection.byte(call));
    }
    {
      const MutexLock lock(mutex_);
      slot.connection.reset();
      slot.dirty = slot.purpose == Purpose::WRITE;
      changed_.notifyAll();
    }
    throwRefused(refused);
  } catch (...) {
    giveBack(slot);
    throw;
  }
}

/// `call`, but over as soon as this client is: for what shutdown() cannot reach otherwise.
Call StoreClient::untilClosing(Call call) const {
  call.until = call.until.orOnce(closing_);
  call.deadline = call.deadline.orOnce(closing_);
  return call;
}

/// Where a server was before: when nobody listens there now, it is gone.
std::unique_ptr<Connection> StoreClient::connectAgain(const Call& call) {
  std::unique_ptr<Connection> made = redial(options_.place(), options_.key, untilClosing(call));
  if (made->native() != traits_.native) {
    throw DistNetworkError({.reason = Reason::STORE_LOST,
                            .what = str("another server than before answers at ", made->place()),
                            .hint = "what the first one held is lost: start the job again",
                            .op = std::string(call.op)});
  }
  return made;
}

std::unique_ptr<StoreClient> StoreClient::twin(Milliseconds timeout) {
  requireNotLost();
  const Call call("clone", {}, timeout);
  std::unique_ptr<Connection> first = watched([&] { return connectAgain(call); });
  return std::unique_ptr<StoreClient>(new StoreClient(options_, std::move(first)));
}

void StoreClient::connectSlot(Slot& slot, const Call& call) {
  try {
    std::unique_ptr<Connection> made = connectAgain(call);
    const MutexLock lock(mutex_);
    if (closing_) {  // shutdown() has been here and could not see this connection
      Gate::refuse("TCPStore");
    }
    slot.connection = std::move(made);
  } catch (...) {
    giveBack(slot);
    throw;
  }
}

void StoreClient::giveBack(Slot& slot) noexcept {
  const MutexLock lock(mutex_);
  const Connection* connection = slot.connection.get();
  const bool useless =
      connection == nullptr || (connection->broken() && !connection->owesConfirmation());
  const bool surplus = slots_.size() > kMostConnections && !slot.dirty;
  if (useless || surplus) {
    slots_.remove_if([&](const Slot& other) { return &other == &slot; });
  } else {
    slot.busy = false;
  }
  changed_.notifyAll();
}

void StoreClient::setClean(Slot& slot) noexcept {
  const MutexLock lock(mutex_);
  if (slot.dirty) {
    slot.dirty = false;
    changed_.notifyAll();
  }
}

void StoreClient::rethrow(const DistError& error) {
  const MutexLock lock(mutex_);
  if (closing_) {
    Gate::refuse("TCPStore");
  }
  if (error.reason() == Reason::STORE_LOST && !lost_) {
    lost_ = error.facts();
    changed_.notifyAll();
  }
  throw;
}

void StoreClient::requireNotLost() {
  const MutexLock lock(mutex_);
  if (lost_) {
    throw DistNetworkError(*lost_);
  }
}

void StoreClient::shutdown() noexcept {
  const MutexLock lock(mutex_);
  closing_ = true;
  for (const Slot& slot : slots_) {
    if (slot.connection && slot.busy) {  // an idle one may have writes to be confirmed
      slot.connection->shutdown();
    }
  }
  changed_.notifyAll();
}

void StoreClient::throwRefused(const std::optional<ErrorFacts>& refused) {
  if (refused) {
    throw DistStoreError(*refused);
  }
}

/// Reads the verdicts of earlier writes; the first refusal among them is for the caller to throw
/// once the connection is back in step.
std::optional<ErrorFacts> StoreClient::readAcknowledgements(const Lease& lease, const Call& call) {
  std::optional<ErrorFacts> refused;
  if (lease->unacknowledged == 0) {
    return refused;
  }
  while (lease->unacknowledged > 0) {
    const std::optional<ErrorFacts> verdict = readVerdict(*lease, call);
    refused = refused ? refused : verdict;
  }
  setClean(lease.slot());
  return refused;
}

/// Returns when the server has carried out everything sent on this connection.
void StoreClient::fence(const Lease& lease, const Call& call) {
  if (lease->native()) {
    throwRefused(readAcknowledgements(lease, call));
    return;
  }
  const RequestWriter ping = RequestWriter().begin(Query::PING).u32(kFenceNonce);
  exchange(lease, call, ping, [&](Connection& connection) { return connection.u32(call); });
}

/// Throws if an earlier write was refused, before a call that changes something is sent: it must
/// not be carried out and its result be lost in the throw. Reads are sent along, and asked again.
void StoreClient::settle(const Lease& lease, const Call& call) {
  throwRefused(readAcknowledgements(lease, call));
}

void StoreClient::writeOnly(const Call& call, const RequestWriter& request) {
  checkCommand(call, request.bytes().size());
  const auto send = [&](const Lease& lease) {
    lease->send(request.bytes(), call);
    if (lease->native()) {
      ++lease->unacknowledged;
    } else {
      lease->unfenced = true;
    }
    if (options_.syncWrites || lease->unacknowledged >= kMostUnacknowledged) {
      fence(lease, call);
    }
  };
  during(call, send, Purpose::WRITE);
}

void StoreClient::set(const std::string& key, std::string_view value, Milliseconds timeout) {
  const Call call("set", {&key, 1}, timeout);
  checkKey(call, key);
  checkValue(call, value.size());
  writeOnly(call, RequestWriter().begin(Query::SET, traits_.native).blob(key).blob(value));
}

void StoreClient::append(const std::string& key, std::string_view value, Milliseconds timeout) {
  const Call call("append", {&key, 1}, timeout);
  checkKey(call, key);
  checkValue(call, value.size());
  writeOnly(call, RequestWriter().begin(Query::APPEND, traits_.native).blob(key).blob(value));
}

void StoreClient::push(const std::string& key, std::string_view value, Milliseconds timeout) {
  const Call call("queue_push", {&key, 1}, timeout);
  requireQueues(call);
  checkKey(call, key);
  checkValue(call, value.size());
  writeOnly(call, RequestWriter().begin(Query::QUEUE_PUSH, traits_.native).blob(key).blob(value));
}

void StoreClient::multiSet(std::span<const std::string> keys, std::span<const Bytes> values,
                           Milliseconds timeout) {
  const Call call("multi_set", keys, timeout);
  checkKeys(call, keys);
  RequestWriter request;
  request.begin(Query::MULTI_SET, traits_.native).i64(static_cast<std::int64_t>(keys.size()));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    checkValue(call, values[i].size());
    request.blob(keys[i]).blob(asText(values[i]));
  }
  writeOnly(call, request);
}

std::int64_t StoreClient::add(const std::string& key, std::int64_t delta, Milliseconds timeout) {
  const Call call("add", {&key, 1}, timeout);
  checkKey(call, key);
  const bool native = traits_.native;
  return change(call, RequestWriter().begin(Query::ADD, native).blob(key).i64(delta),
                [&](Connection& connection) {
                  if (native) {
                    connection.verdict(call);
                  }
                  return connection.i64(call);
                });
}

Swapped StoreClient::compareSet(const std::string& key, std::string_view expected,
                                std::string_view desired, Milliseconds timeout) {
  const Call call("compare_set", {&key, 1}, timeout);
  checkKey(call, key);
  checkValue(call, expected.size());
  checkValue(call, desired.size());
  const bool native = traits_.native;
  RequestWriter request;
  request.begin(Query::COMPARE_SET, native).blob(key).blob(expected).blob(desired);
  checkCommand(call, request.bytes().size());
  return change(call, request, [&](Connection& connection) {
    Swapped swapped;
    if (native) {
      connection.verdict(call);
      swapped.stored = connection.byte(call) == kStored;
    }
    swapped.value = connection.value(call);
    if (!native && asText(swapped.value) != desired) {
      swapped.stored = false;
    }
    return swapped;
  });
}

bool StoreClient::check(std::span<const std::string> keys, Milliseconds timeout) {
  const Call call("check", keys, timeout);
  checkKeys(call, keys);
  const RequestWriter request = RequestWriter().begin(Query::CHECK).keys(keys);
  checkCommand(call, request.bytes().size());
  return ask(call, request, [&](Connection& connection) {
    const std::uint8_t answer = connection.byte(call);
    if (answer != kReady && answer != kNotReady) {
      connection.outOfStep(call, str("the byte ", answer));
    }
    return answer == kReady;
  });
}

bool StoreClient::remove(const std::string& key, Milliseconds timeout) {
  const Call call("delete_key", {&key, 1}, timeout);
  checkKey(call, key);
  return removeIn(call, key);
}

bool StoreClient::removeIn(const Call& call, const std::string& key) {
  return change(call, RequestWriter().begin(Query::DELETE_KEY).blob(key),
                [&](Connection& connection) { return connection.count(call) > 0; });
}

/// A stock server cannot do it in one step; it is still one call, with one deadline.
std::int64_t StoreClient::removeOneByOne(const std::string& prefix, const Call& call) {
  std::vector<std::string> keys = listKeysIn(call);
  std::erase_if(keys, [&](const std::string& key) { return !key.starts_with(prefix); });
  std::int64_t removed = 0;
  for (const std::string& key : keys) {
    if (call.deadline.expired()) {
      throwWaitTimeout(call.op, call.keys, call.timeout,
                       str(removed, " of ", keys.size(), " keys were deleted"),
                       options_.place().text());
    }
    removed += removeIn(call, key) ? 1 : 0;
  }
  return removed;
}

std::int64_t StoreClient::removePrefix(const std::string& prefix, Milliseconds timeout) {
  const Call call("delete_prefix", {&prefix, 1}, timeout);
  checkKey(call, prefix);
  if (!traits_.native) {
    return removeOneByOne(prefix, call);
  }
  return change(call, RequestWriter().begin(Query::DELETE_PREFIX, true).blob(prefix),
                [&](Connection& connection) {
                  connection.verdict(call);
                  return connection.count(call);
                });
}

std::int64_t StoreClient::numKeys(Milliseconds timeout) {
  const Call call("num_keys", {}, timeout);
  return ask(call, RequestWriter().begin(Query::NUM_KEYS),
             [&](Connection& connection) { return connection.count(call); });
}

std::string StoreClient::stats(Milliseconds timeout) {
  if (!traits_.native) {
    return "";
  }
  const Call call("stats", {}, timeout);
  return ask(call, RequestWriter().begin(Query::GET).blob(kStatsKey),
             [&](Connection& connection) { return connection.blob(call); });
}

std::vector<std::string> StoreClient::listKeys(Milliseconds timeout) {
  return listKeysIn(Call("list_keys", {}, timeout));
}

std::vector<std::string> StoreClient::listKeysIn(const Call& call) {
  const bool answered = traits_.listing;
  return ask(call, RequestWriter().begin(Query::LIST_KEYS, answered), [&](Connection& connection) {
    if (answered) {
      connection.verdict(call);
    }
    std::vector<std::string> keys;
    for (std::int64_t left = connection.count(call); left > 0; --left) {
      keys.push_back(connection.blob(call));
    }
    return keys;
  });
}

std::int64_t StoreClient::queueLength(const std::string& key, Milliseconds timeout) {
  const Call call("queue_len", {&key, 1}, timeout);
  requireQueues(call);
  checkKey(call, key);
  return ask(call, RequestWriter().begin(Query::QUEUE_LEN).blob(key),
             [&](Connection& connection) { return connection.count(call); });
}

std::optional<Bytes> StoreClient::tryPop(const std::string& key, Milliseconds timeout) {
  const Call call("queue_pop", {&key, 1}, timeout);
  requireQueues(call);
  checkKey(call, key);
  return change(call, RequestWriter().begin(Query::QUEUE_POP).blob(key),
                [&](Connection& connection) { return readElement(connection, call); });
}

/// The answer to the stock QUEUE_POP: the length before, and the element if that was not 0.
std::optional<Bytes> StoreClient::readElement(Connection& connection, const Call& call) {
  return connection.count(call) > 0 ? std::optional(connection.value(call)) : std::nullopt;
}

/// PyTorch's poll server has no queues, and closes the connection of who asks for one. So it is
/// asked once, on a connection that is used for nothing else.
bool StoreClient::askForQueues(const Call& call) {
  const std::unique_ptr<Connection> probe = redial(options_.place(), options_.key, call);
  try {
    probe->send(RequestWriter().begin(Query::QUEUE_LEN).blob(call.keys.front()).bytes(), call);
    static_cast<void>(probe->i64(call));
    return true;
  } catch (const DistNetworkError&) {
    static_cast<void>(numKeys(call.timeout));  // throws when the store is lost altogether
    return false;
  }
}

void StoreClient::requireQueues(const Call& call) {
  if (traits_.native) {
    return;
  }
  std::optional<bool> has;
  {
    const MutexLock lock(mutex_);
    has = hasQueues_;
  }
  if (!has) {
    has = watched([&] { return askForQueues(untilClosing(call)); });
    const MutexLock lock(mutex_);
    hasQueues_ = has;
  }
  if (!*has) {
    throw NotSupportedError(
        {.reason = Reason::USAGE,
         .what = str(call.op, " is not possible: the server at ", options_.place().text(),
                     " has no queues"),
         .hint = "it is PyTorch's old server: start it with use_libuv=True, or use one of ours",
         .op = std::string(call.op)});
  }
}

void StoreClient::overLimit(const Call& call, std::string_view what, std::uint64_t is,
                            std::uint64_t most) const {
  throw DistStoreError({.reason = Reason::LIMIT,
                        .what = str(call.op, " was not sent: ", what, " of ", is,
                                    " is over the store's limit of ", most),
                        .hint = "a store is for small control data: send large data through a "
                                "collective, or split it",
                        .op = std::string(call.op)});
}

void StoreClient::checkKey(const Call& call, std::string_view key) const {
  if (key.size() > traits_.limits.keyBytes) {
    overLimit(call, "a key size in bytes", key.size(), traits_.limits.keyBytes);
  }
}

void StoreClient::checkKeys(const Call& call, std::span<const std::string> keys) const {
  if (keys.size() > traits_.limits.keysPerCommand) {
    overLimit(call, "a number of keys", keys.size(), traits_.limits.keysPerCommand);
  }
  for (const std::string& key : keys) {
    checkKey(call, key);
  }
}

void StoreClient::checkValue(const Call& call, std::uint64_t size) const {
  if (size > traits_.limits.valueBytes) {
    overLimit(call, "a value size in bytes", size, traits_.limits.valueBytes);
  }
}

void StoreClient::checkCommand(const Call& call, std::uint64_t size) const {
  if (size > traits_.limits.commandBytes) {
    overLimit(call, "a total size in bytes", size, traits_.limits.commandBytes);
  }
}

}  // namespace unisono::tcp

// The calls of StoreClient that wait for others.

#include <algorithm>
#include <utility>

#include "base/str.hpp"
#include "base/wait.hpp"
#include "store/common.hpp"
#include "store/tcp/client.hpp"

namespace unisono::tcp {
namespace {

// How often a pop that found a name present but its queue empty asks again (stock servers only:
// another consumer was faster, or a plain key has that name).
constexpr Milliseconds kPopAgain(10);

/// How long a server may take to confirm that a wait was canceled.
Milliseconds cancelTime(const Call& call, const ServerTraits& traits) {
  return std::max({Milliseconds(50), call.timeout / 100, 4 * traits.roundTrip});
}

/// `call` with a little more time: its reply has begun to arrive.
Call withTimeToFinish(Call call) {
  call.deadline = std::max(call.deadline, Deadline::after(kLeastAnswerTime));
  return call;
}

/// What is read when a bare "done" is the whole answer.
constexpr auto kNothingMore = [](Connection&, const Call&) { return true; };

}  // namespace

/// Sends the request, the fence in front of it when there are writes to be confirmed (nothing may
/// follow a stock WAIT), and the cancellation behind it when the timeout is 0: one check.
std::optional<ErrorFacts> StoreClient::sendWaiting(const Lease& lease, const Call& call,
                                                   const RequestWriter& request) {
  std::string bytes;
  if (lease->unfenced) {
    bytes = RequestWriter().begin(Query::PING).u32(0).bytes();
  }
  bytes += request.bytes();
  if (call.timeout.count() == 0) {
    bytes += RequestWriter().begin(Query::CANCEL_WAIT).bytes();
  }
  lease->send(bytes, call);
  const std::optional<ErrorFacts> refused = readAcknowledgements(lease, call);
  if (lease->unfenced) {
    static_cast<void>(lease->u32(call));
    lease->unfenced = false;
    setClean(lease.slot());
  }
  return refused;
}

/// The first byte of the answer to a wait. When none comes by `until` the wait is canceled
/// (`*canceled`), and the byte is what the server says then.
std::uint8_t StoreClient::firstByte(Connection& connection, const Call& call, Deadline until,
                                    bool* canceled) {
  *canceled = call.timeout.count() == 0;
  std::optional<std::uint8_t> first = connection.byteBy(*canceled ? call.deadline : until, call);
  if (!first && !*canceled) {
    *canceled = true;
    Call last = call;
    last.deadline = Deadline::after(cancelTime(call, connection.traits));
    connection.send(RequestWriter().begin(Query::CANCEL_WAIT).bytes(), last);
    first = connection.byteBy(last.deadline, last);
  }
  if (!first) {
    connection.unanswered(call);
  }
  return *first;
}

/// Sends a request that waits, and returns what `read` makes of its answer, or nothing when the
/// timeout passed: the wait has then been canceled, and the connection is in step. Serves the
/// answered requests as well as the stock WAIT and BARRIER: "stop waiting" is DONE.
template <typename Read>
auto StoreClient::awaitAnswer(const Lease& lease, const Call& call, const RequestWriter& request,
                              Read read) {
  std::optional<ErrorFacts> refused = sendWaiting(lease, call, request);
  // What is waited for may be the very write that was refused.
  const Deadline until = refused ? Deadline::at(call.start) : call.until;
  bool canceled = false;
  const auto verdict = static_cast<Verdict>(firstByte(*lease, call, until, &canceled));
  const Call rest = withTimeToFinish(call);
  std::optional<decltype(read(*lease, rest))> value;
  if (verdict == Verdict::DONE) {
    value = read(*lease, rest);
  } else if (verdict == Verdict::REFUSED) {
    refused = lease->refusal(rest);
  } else if (verdict != Verdict::CANCELED || !canceled) {
    lease->outOfStep(call, str("the byte ", static_cast<int>(verdict)));
  }
  // An answer that crossed the cancellation is followed by its confirmation.
  if (canceled && verdict != Verdict::CANCELED && lease->byte(rest) != kWaitCanceled) {
    lease->outOfStep(call, "something else than the end of the wait");
  }
  throwRefused(refused);
  return value;
}

Bytes StoreClient::get(const std::string& key, Milliseconds timeout) {
  const std::span<const std::string> keys(&key, 1);
  const Call call("get", keys, timeout);
  checkKey(call, key);
  const auto body = [&](const Lease& lease) {
    if (lease->native()) {
      auto value = awaitAnswer(lease, call, RequestWriter().begin(Query::GET, true).blob(key),
                               [](Connection& c, const Call& rest) { return c.value(rest); });
      return value ? std::move(*value) : giveUp(call, lease->place());
    }
    if (!awaitAnswer(lease, call, RequestWriter().begin(Query::WAIT).keys(keys), kNothingMore)) {
      giveUp(call, lease->place());
    }
    const Call rest = withTimeToFinish(call);
    return exchange(lease, rest, RequestWriter().begin(Query::GET).blob(key),
                    [&](Connection& connection) { return connection.value(rest); });
  };
  return during(call, body, Purpose::WAIT);
}

std::vector<Bytes> StoreClient::multiGet(std::span<const std::string> keys, Milliseconds timeout) {
  const Call call("multi_get", keys, timeout);
  checkKeys(call, keys);
  const RequestWriter request = RequestWriter().begin(Query::MULTI_GET, traits_.native).keys(keys);
  checkCommand(call, request.bytes().size());
  const auto readAll = [&](Connection& connection, const Call& rest) {
    std::vector<Bytes> values;
    values.reserve(keys.size());
    while (values.size() < keys.size()) {
      values.push_back(connection.value(rest));
    }
    return values;
  };
  const auto body = [&](const Lease& lease) {
    if (lease->native()) {
      auto values = awaitAnswer(lease, call, request, readAll);
      return values ? std::move(*values) : std::vector<Bytes>{giveUp(call, lease->place())};
    }
    if (!awaitAnswer(lease, call, RequestWriter().begin(Query::WAIT).keys(keys), kNothingMore)) {
      giveUp(call, lease->place());
    }
    const Call rest = withTimeToFinish(call);
    return exchange(lease, rest, request,
                    [&](Connection& connection) { return readAll(connection, rest); });
  };
  return during(call, body, Purpose::WAIT);
}

void StoreClient::wait(std::span<const std::string> keys, Milliseconds timeout) {
  const Call call("wait", keys, timeout);
  checkKeys(call, keys);
  const RequestWriter request = RequestWriter().begin(Query::WAIT, traits_.native).keys(keys);
  checkCommand(call, request.bytes().size());
  const auto body = [&](const Lease& lease) {
    if (!awaitAnswer(lease, call, request, kNothingMore)) {
      giveUp(call, lease->place());
    }
  };
  during(call, body, Purpose::WAIT);
}

Bytes StoreClient::pop(const std::string& key, Milliseconds timeout) {
  const std::span<const std::string> keys(&key, 1);
  const Call call("queue_pop", keys, timeout);
  requireQueues(call);
  checkKey(call, key);
  if (!traits_.native) {
    return popStock(key, call);
  }
  const auto body = [&](const Lease& lease) {
    settle(lease, call);
    auto element = awaitAnswer(lease, call, RequestWriter().begin(Query::QUEUE_POP, true).blob(key),
                               [](Connection& c, const Call& rest) { return c.value(rest); });
    return element ? std::move(*element) : giveUp(call, lease->place());
  };
  return during(call, body, Purpose::WAIT);
}

/// A stock server knows "wait until there is something" and "take it", but not both in one: when
/// another consumer was faster, waits again.
Bytes StoreClient::popStock(const std::string& key, const Call& call) {
  const RequestWriter wait = RequestWriter().begin(Query::WAIT).keys(call.keys);
  const RequestWriter pop = RequestWriter().begin(Query::QUEUE_POP).blob(key);
  const auto body = [&](const Lease& lease) {
    if (!awaitAnswer(lease, call, wait, kNothingMore)) {
      giveUp(call, lease->place());
    }
    const Call rest = withTimeToFinish(call);
    return exchange(lease, rest, pop,
                    [&](Connection& connection) { return readElement(connection, rest); });
  };
  for (const WaitContext pause{.deadline = call.until, .subject = {}};;
       pauseFor(kPopAgain, pause)) {
    if (std::optional<Bytes> element = during(call, body, Purpose::WAIT)) {
      return *std::move(element);
    }
    if (call.until.expired()) {
      throwWaitTimeout(call.op, call.keys, call.timeout, "others took what was there");
    }
  }
}

void StoreClient::barrier(const std::string& key, std::int64_t worldSize, Milliseconds timeout) {
  const Call call("barrier", {&key, 1}, timeout);
  checkKey(call, key);
  RequestWriter request;
  request.begin(Query::BARRIER, traits_.native).blob(key).i64(worldSize);
  const auto body = [&](const Lease& lease) {
    settle(lease, call);
    if (!awaitAnswer(lease, call, request, kNothingMore)) {
      throwBarrierTimeout(std::string_view(key).substr(1), worldSize, timeout, lease->place());
    }
  };
  during(call, body, Purpose::ARRIVE);
}

/// Throws the error of a wait whose timeout passed.
Bytes StoreClient::giveUp(const Call& call, const std::string& place) {
  throwWaitTimeout(call.op, call.keys, call.timeout, {}, place);
}

}  // namespace unisono::tcp

// What each request does to the table, and what is said in return.

#include <algorithm>
#include <new>
#include <utility>

#include "base/bytes.hpp"
#include "base/str.hpp"
#include "store/tcp/core.hpp"

namespace unisono::tcp {
namespace {

void putVerdict(Session& session, Verdict verdict) {
  ByteWriter(session.out).number(static_cast<std::uint8_t>(verdict));
}

void putByte(Session& session, std::uint8_t byte) {
  ByteWriter(session.out).number(byte);
}

void putI64(Session& session, std::size_t value) {
  ByteWriter(session.out).number(static_cast<std::int64_t>(value));
}

void putRefusal(Session& session, const Status& why) {
  putVerdict(session, Verdict::REFUSED);
  ByteWriter(session.out).blob(token(why.reason()));
  ByteWriter(session.out).blob(why.text());
}

void putRemoved(Session& session, std::int64_t count) {
  putVerdict(session, Verdict::DONE);
  ByteWriter(session.out).number(count);
}

std::uint64_t replyBytes(std::span<const std::string_view> values) {
  std::uint64_t bytes = 0;
  for (const std::string_view value : values) {
    bytes += 8 + value.size();
  }
  return bytes;
}

}  // namespace

Status StoreCore::execute(Session& session, const Request& request) {
  const Query query = request.query();
  if (session.claim) {
    const bool pops = query == Query::QUEUE_POP && request.key() == *session.claim;
    pops ? session.claim.reset() : releaseClaim(session);
  }
  switch (query) {
    case Query::SET:
    case Query::APPEND:
    case Query::MULTI_SET:
    case Query::QUEUE_PUSH:
      return write(session, request);
    case Query::COMPARE_SET:
      return compareSet(session, request);
    case Query::ADD:
      return add(session, request);
    case Query::GET:
    case Query::MULTI_GET:
      return request.answered ? waitForKeys(session, request) : getStock(session, request);
    case Query::WAIT:
      return waitForKeys(session, request);
    case Query::QUEUE_POP:
      return request.answered ? popWaiting(session, request) : popQueue(session, request);
    case Query::BARRIER:
      return arrive(session, request);
    case Query::CHECK:
      check(session, request);
      break;
    case Query::NUM_KEYS:
      putI64(session, table_.size());
      break;
    case Query::DELETE_KEY:
      putI64(session, table_.remove(request.key()) ? 1 : 0);
      break;
    case Query::DELETE_PREFIX:
      removePrefix(session, request);
      break;
    case Query::CANCEL_WAIT:
      table_.cancelWait(session.id);
      session.pending.reset();
      putByte(session, kWaitCanceled);
      break;
    case Query::PING:
      ByteWriter(session.out).number(static_cast<std::uint32_t>(request.number));
      break;
    case Query::QUEUE_LEN:
      putI64(session, table_.queueLength(request.key()));
      break;
    case Query::LIST_KEYS:
      return listKeys(session, request);
    case Query::VALIDATE:
      return {Reason::PROTOCOL, "it said hello twice"};
  }
  return Status::ok();
}

/// Says no: with a text to those who asked for an answer, by closing to all others, since the
/// stock protocol has no other way.
Status StoreCore::refuse(Session& session, const Request& request, const Status& why) {
  const bool malformed = &why == &session.parser.failure();
  const bool answered = malformed ? session.parser.wantsAnswer() : request.answered;
  if (answered) {
    putRefusal(session, why);
  }
  if (answered && !malformed) {
    return Status::ok();
  }
  return {why.reason(), malformed ? why.text() : str(request.shape->name, ": ", why.text())};
}

Status StoreCore::write(Session& session, const Request& request) {
  const Status status = [&] {
    switch (request.query()) {
      case Query::SET:
        return table_.set(request.key(), request.values.front());
      case Query::APPEND:
        return table_.append(request.key(), request.values.front());
      case Query::QUEUE_PUSH:
        return table_.push(request.key(), request.values.front());
      default:
        return table_.multiSet(request.keys, request.values);
    }
  }();
  if (!status.isOk()) {
    return refuseWrite(session, request, status);
  }
  if (request.answered) {
    putVerdict(session, Verdict::DONE);
  }
  return Status::ok();
}

/// Names the write: its client may have sent many more before it reads this.
Status StoreCore::refuseWrite(Session& session, const Request& request, const Status& why) {
  if (!request.answered || request.keys.empty()) {
    return refuse(session, request, why);
  }
  return refuse(session, request,
                {why.reason(), str(request.shape->name, " of ", request.key(), ": ", why.text())});
}

Status StoreCore::add(Session& session, const Request& request) {
  const Result<std::int64_t> sum = table_.add(request.key(), request.number);
  if (!sum.isOk()) {
    return refuse(session, request, sum.failure());
  }
  if (request.answered) {
    putVerdict(session, Verdict::DONE);
  }
  ByteWriter(session.out).number(sum.value());
  return Status::ok();
}

Status StoreCore::compareSet(Session& session, const Request& request) {
  const Result<KvTable::Compared> compared =
      table_.compareSet(request.key(), request.values[0], request.values[1]);
  if (!compared.isOk()) {
    return refuse(session, request, compared.failure());
  }
  if (request.answered) {
    putVerdict(session, Verdict::DONE);
    putByte(session, static_cast<std::uint8_t>(compared.value().outcome));
  }
  ByteWriter(session.out).blob(compared.value().value);
  return Status::ok();
}

/// A reply is refused before it is built: one request may name the same large value often.
Status StoreCore::admitReply(const Session& session, std::uint64_t bytes) const {
  if (session.unsent() + bytes <= limits_.unsentBytes) {
    return Status::ok();
  }
  return {Reason::LIMIT, str("the reply would have ", bytes, " bytes; the limit is ",
                             limits_.unsentBytes, ": ask for less at a time")};
}

/// The stock GET and MULTI_GET do not wait: a missing key reads as an empty value.
Status StoreCore::getStock(Session& session, const Request& request) {
  std::string stats;
  values_.clear();
  for (const std::string_view key : request.keys) {
    const std::string* value = table_.find(key);
    if (key == kCapabilityKey) {
      value = &capabilities_;
    } else if (key == kStatsKey) {
      stats = stats.empty() ? statsText(latest_) : stats;
      value = &stats;
    }
    values_.push_back(value == nullptr ? std::string_view() : *value);
  }
  Status status = admitReply(session, replyBytes(values_));
  if (status.isOk()) {
    putValues(session);
  }
  return status;
}

void StoreCore::putValues(Session& session) {
  for (const std::string_view value : values_) {
    ByteWriter(session.out).blob(value);
  }
}

Status StoreCore::waitForKeys(Session& session, const Request& request) {
  const bool reads = request.query() != Query::WAIT;
  const bool atOnce = request.keys.size() <= std::max(limits_.slice, limits_.look);
  if (reads && atOnce && lookUp(request.keys)) {
    table_.cancelWait(session.id);  // what it waited for before
    putFound(session);
    return Status::ok();
  }
  // A stock client that waits for one queue is about to pop from it; ours has a pop that waits.
  const bool politely = !request.answered && request.keys.size() == 1;
  const WaitFor what = reads      ? WaitFor::VALUES
                       : politely ? WaitFor::PRESENCE_POLITELY
                                  : WaitFor::PRESENCE;
  const Result<bool> satisfied = [&]() -> Result<bool> {
    if (request.keys.size() <= limits_.slice) {
      return table_.wait(session.id, request.keys, what);
    }
    if (request.keys.size() <= limits_.look && table_.allThere(request.keys, what)) {
      table_.cancelWait(session.id);  // what it waited for before
      return true;
    }
    spent_ -= request.keys.size();  // nothing yet: that comes in slices
    Status begun = table_.beginWait(session.id, request.keys, what);
    return begun.isOk() ? Result<bool>(false) : Result<bool>(std::move(begun));
  }();
  if (!satisfied.isOk()) {
    return refuse(session, request, satisfied.failure());
  }
  if (!satisfied.value()) {
    session.pending = Session::Pending{request.query(), request.answered};
    if (reads) {
      session.pending->keys.assign(request.keys.begin(), request.keys.end());
    }
  } else {
    finishWait(session, nullptr);
  }
  return Status::ok();
}

/// Puts the values of `keys` into values_; false when one has none.
bool StoreCore::lookUp(std::span<const std::string_view> keys) {
  values_.clear();
  return std::all_of(keys.begin(), keys.end(), [this](std::string_view key) {
    const std::string* value = table_.find(key);
    if (value != nullptr) {
      values_.push_back(*value);
    }
    return value != nullptr;
  });
}

Status StoreCore::popQueue(Session& session, const Request& request) {
  putI64(session, table_.queueLength(request.key()));
  if (const std::optional<std::string> element = table_.pop(request.key())) {
    ByteWriter(session.out).blob(*element);
  }
  return Status::ok();
}

Status StoreCore::popWaiting(Session& session, const Request& request) {
  const Result<std::optional<std::string>> element = table_.popOrWait(session.id, request.key());
  if (!element.isOk()) {
    return refuse(session, request, element.failure());
  }
  if (element.value()) {
    finishWait(session, &*element.value());
  } else {
    session.pending = Session::Pending{request.query(), request.answered};
  }
  return Status::ok();
}

Status StoreCore::arrive(Session& session, const Request& request) {
  const Result<bool> complete = table_.arrive(session.id, request.key(), request.number);
  if (!complete.isOk()) {
    return refuse(session, request, complete.failure());
  }
  if (complete.value()) {
    finishWait(session, nullptr);
  } else {
    session.pending = Session::Pending{request.query(), request.answered};
  }
  return Status::ok();
}

void StoreCore::check(Session& session, const Request& request) {
  const bool probe = request.keys.size() == 1 && request.key() == kCapabilityKey;
  putByte(session, probe || table_.allPresent(request.keys) ? kReady : kNotReady);
}

Status StoreCore::listKeys(Session& session, const Request& request) {
  const std::vector<std::string_view> keys = table_.keys();
  std::uint64_t bytes = 8;
  for (const std::string_view key : keys) {
    bytes += 8 + key.size();
  }
  if (const Status status = admitReply(session, bytes); !status.isOk()) {
    return refuse(session, request, status);
  }
  if (request.answered) {
    putVerdict(session, Verdict::DONE);
  }
  putI64(session, keys.size());
  for (const std::string_view key : keys) {
    ByteWriter(session.out).blob(key);
  }
  return Status::ok();
}

void StoreCore::removePrefix(Session& session, const Request& request) {
  if (const std::optional<std::int64_t> count = table_.beginRemoval(session.id, request.key())) {
    putRemoved(session, *count);
  } else {
    session.pending = Session::Pending{request.query(), request.answered};
  }
}

/// Answers a request that waited, or did not have to, with what a pop got.
void StoreCore::finishWait(Session& session, const std::string* element) {
  static_assert(kStopWaiting == static_cast<std::uint8_t>(Verdict::DONE));
  putVerdict(session, Verdict::DONE);
  if (element != nullptr) {
    ByteWriter(session.out).blob(*element);
  }
}

/// The same, with the values of `keys`, which all have one.
void StoreCore::finishGet(Session& session, std::span<const std::string_view> keys) {
  lookUp(keys);
  putFound(session);
}

/// The same, with what lookUp() has found.
void StoreCore::putFound(Session& session) {
  if (const Status status = admitReply(session, replyBytes(values_)); !status.isOk()) {
    putRefusal(session, status);
    return;
  }
  putVerdict(session, Verdict::DONE);
  putValues(session);
}

void StoreCore::releaseClaim(Session& session) {
  const std::string name = *std::exchange(session.claim, std::nullopt);
  table_.passOn(name);
}

void StoreCore::answerWakes(TimePoint now) {
  for (const Wake& wake : table_.takeWakes()) {
    Session* session = find(wake.id);
    if (session == nullptr || !session->pending) {
      continue;
    }
    try {
      answerWake(*session, wake, now);
    } catch (const std::bad_alloc&) {  // its connection goes, not that of whoever woke it
      fail(*session, {Reason::RESOURCE, "there is no memory for its reply"});
    }
  }
}

void StoreCore::answerWake(Session& session, const Wake& wake, TimePoint now) {
  if (wake.queue) {
    session.claim = wake.queue;
    session.claimedAt = now;
    if (!session.claimListed) {
      claims_.push_back(session.id);
      session.claimListed = true;
    }
  }
  const Session::Pending what = *std::exchange(session.pending, std::nullopt);
  if (wake.removed) {
    putRemoved(session, *wake.removed);
    freed_.push_back(session.id);
  } else if (what.keys.empty()) {
    finishWait(session, wake.element ? &*wake.element : nullptr);
  } else {
    const std::vector<std::string_view> keys(what.keys.begin(), what.keys.end());
    finishGet(session, keys);
  }
  settle(session, now);
}

}  // namespace unisono::tcp

#include "store/tcp/core.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/bytes.hpp"
#include "base/str.hpp"

namespace unisono::tcp {
namespace {

// How long a waiter that a push woke may take to pop before the next one is woken.
constexpr Milliseconds kClaimTime(100);

// How often all connections are looked at.
constexpr Milliseconds kSweepPeriod(1000);

// The most that is done at a time of what is done in slices.
constexpr std::size_t kMostSlices = 32;

// A reply buffer larger than this is given back once it has been sent.
constexpr std::size_t kKeptReply = 512;

// Of those, so many are kept for whoever sends many requests at once next.
constexpr std::size_t kSpares = 64;
constexpr std::size_t kSpareCapacity = 16 * 1024;

std::string capabilityRecord(const StoreLimits& limits) {
  std::string record;
  ByteWriter writer(record);
  writer.number(kCapabilityVersion);
  writer.number(kFeatureAnswered | kFeatureListing);
  writer.number(limits.keyBytes);
  writer.number(limits.valueBytes);
  writer.number(limits.keysPerCommand);
  writer.number(limits.commandBytes);
  return record;
}

}  // namespace

StoreCore::StoreCore(const StoreLimits& limits, TimePoint start, const std::optional<Key>& key)
    : limits_(limits),
      key_(key),
      capabilities_(capabilityRecord(limits)),
      table_(limits),
      start_(start),
      latest_(start) {}

/// Several calls about the same connection follow each other for every request.
Session* StoreCore::find(ConnectionId id) const {
  if (lastFound_ == nullptr || lastFound_->id != id) {
    const auto found = sessions_.find(id);
    lastFound_ = found == sessions_.end() ? nullptr : found->second.get();
  }
  return lastFound_;
}

void StoreCore::touch(Session& session) {
  if (!session.touched) {
    touched_.push_back(session.id);
    session.touched = true;
  }
}

/// From here on the connection gets nothing but what has been said to it already: a push that
/// comes before it is closed is for somebody else.
void StoreCore::fail(Session& session, Status why) {
  if (session.closing) {
    return;
  }
  session.closing = std::move(why);
  session.parser.discard();
  std::string().swap(session.held);
  countPartial(session);
  table_.cancelWait(session.id);
  session.pending.reset();
  touch(session);
}

void StoreCore::open(ConnectionId id, std::string peer, TimePoint now, bool needsNoProof) {
  latest_ = now;
  auto session = std::make_unique<Session>(id, std::move(peer), limits_, now);
  session->needsNoProof = needsNoProof;
  sessions_.emplace(id, std::move(session));
  unvalidated_.push_back(id);
  ++accepted_;
  if (unvalidated_.size() > limits_.unvalidated) {
    fail(*find(unvalidated_.front()),
         {Reason::LIMIT, str("it was the oldest of more than ", limits_.unvalidated,
                             " connections that had not said hello")});
    unvalidated_.pop_front();
  }
}

void StoreCore::close(ConnectionId id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) {
    return;
  }
  const std::unique_ptr<Session> session = std::move(found->second);
  sessions_.erase(found);
  lastFound_ = nullptr;
  if (!session->validated) {
    unvalidated_.remove(id);
  }
  unsentBytes_ -= session->counted;
  partialBytes_ -= session->partial;
  table_.cancelWait(id);
  if (session->claim) {
    table_.passOn(*session->claim);
  }
  answerWakes(latest_);
  resumePaused();
}

void StoreCore::receive(ConnectionId id, std::string_view bytes, TimePoint now) {
  Session* session = find(id);
  if (session == nullptr || session->closing || bytes.empty()) {
    return;
  }
  latest_ = now;
  if (!session->held.empty() || session->busy()) {
    session->held.append(bytes);
    return;
  }
  carryOut(*session, bytes, now);
}

/// Carries out the requests in `bytes`, as long as their replies are taken. A few bytes can ask for
/// very many: what comes after too many replies is kept until some have been sent, and what comes
/// after a request that is carried out in slices until that is done.
void StoreCore::carryOut(Session& session, std::string_view bytes, TimePoint now) {
  if (bytes.size() > kKeptReply) {
    lendBuffer(session);
  }
  std::string_view rest = bytes;
  Status status = session.validated ? Status::ok() : takeHello(session, &rest, now);
  while (status.isOk() && !session.closing && !session.busy() &&
         session.unsent() <= limits_.unsentPause) {
    const RequestParser::Step step = session.parser.next(&rest, &request_);
    if (step == RequestParser::Step::NEED_MORE) {
      break;
    }
    status = step == RequestParser::Step::BAD ? refuse(session, request_, session.parser.failure())
                                              : takeRequest(session, request_);
    if (table_.anyWakes()) {
      answerWakes(now);  // before the next request can take away what woke somebody
    }
    settle(session, now);
  }
  if (status.isOk() && !session.closing) {
    session.held.assign(rest);
  }
  session.lastByte = session.validated ? now : session.lastByte;  // a hello has one deadline
  countPartial(session);
  if (!status.isOk()) {
    fail(session, std::move(status));
  }
  limitPartial();
}

void StoreCore::countPartial(Session& session) {
  partialBytes_ -= session.partial;
  session.partial = session.parser.partialBytes() + session.held.size();
  partialBytes_ += session.partial;
}

/// The one with the largest incomplete request among those that are `paused`, or not; or null.
Session* StoreCore::largestPartial(bool paused) const {
  Session* largest = nullptr;
  for (const auto& [id, session] : sessions_) {
    const std::size_t least = largest == nullptr ? 0 : largest->partial;
    if (session->paused == paused && session->partial > least) {
      largest = session.get();
    }
  }
  return largest;
}

/// Whoever just went over the limit may be a modest client in a store that another one fills: those
/// that hold most are not listened to until others are done. Only when very many come at once, so
/// that this is not enough, they are closed.
void StoreCore::limitPartial() {
  while (partialBytes_ > limits_.partialTotal / 4 * 5) {
    Session* paused = largestPartial(true);
    Session& largest = paused == nullptr ? *largestPartial(false) : *paused;
    fail(largest, {Reason::LIMIT, str("its incomplete request of ", formatBytes(largest.partial),
                                      " was the largest when those of all connections exceeded ",
                                      formatBytes(limits_.partialTotal))});
  }
  if (partialBytes_ > limits_.partialTotal) {
    Session* largest = largestPartial(false);
    if (largest != nullptr) {
      largest->paused = true;
      anyPaused_ = true;
      touch(*largest);
    }
  }
  resumePaused();
}

/// Listens to everybody again once there is room, and to one in any case: somebody's request must
/// become complete.
void StoreCore::resumePaused() {
  if (!anyPaused_) {
    return;
  }
  if (partialBytes_ > limits_.partialTotal / 4 * 3) {
    Session* next = largestPartial(false) == nullptr ? largestPartial(true) : nullptr;
    if (next != nullptr) {
      resume(*next);
    }
    return;
  }
  for (const auto& [id, session] : sessions_) {
    if (session->paused) {
      resume(*session);
    }
  }
  anyPaused_ = false;
}

void StoreCore::resume(Session& session) {
  session.paused = false;
  session.lastByte = latest_;  // it was we who did not listen
  touch(session);
}

/// Counts what has been added to the replies of `session`, and asks for it to be sent.
void StoreCore::settle(Session& session, TimePoint now) {
  if (session.unsent() == session.counted) {
    return;
  }
  session.lastSent = session.counted == 0 ? now : session.lastSent;
  unsentBytes_ += session.unsent() - session.counted;
  session.counted = session.unsent();
  touch(session);
  if (session.unsent() > limits_.unsentBytes) {
    fail(session, {Reason::LIMIT, str("it does not take its replies: more than ",
                                      formatBytes(limits_.unsentBytes), " wait for it")});
  }
}

Status StoreCore::takeRequest(Session& session, Request& request) {
  if (session.validated) {
    ++requests_[shapeIndex(request.query())];
    spent_ += 1 + request.keys.size();
    return execute(session, request);
  }
  if (request.number != kMagic) {
    return {Reason::PROTOCOL, "it said hello with a wrong magic number"};
  }
  validate(session);
  return Status::ok();
}

void StoreCore::tick(TimePoint now) {
  latest_ = now;
  for (const ConnectionId id : std::exchange(claims_, {})) {
    Session* session = find(id);
    if (session == nullptr) {
      continue;
    }
    session->claimListed = session->claim && now - session->claimedAt <= kClaimTime;
    if (session->claimListed) {
      claims_.push_back(id);
    } else if (session->claim) {
      releaseClaim(*session);
    }
  }
  answerWakes(now);
  if (now >= nextSweep_) {
    nextSweep_ = now + kSweepPeriod;
    sweep(now);
  }
}

bool StoreCore::work(TimePoint now) {
  const std::size_t share =
      std::clamp(std::exchange(spent_, 0), limits_.slice, kMostSlices * limits_.slice);
  if (!table_.anyWork()) {
    return false;
  }
  latest_ = now;
  table_.work(share);
  answerWakes(now);
  for (const ConnectionId id : std::exchange(freed_, {})) {
    Session* session = find(id);
    if (session == nullptr || session->closing) {
      continue;
    }
    try {
      carryOut(*session, std::exchange(session->held, {}), now);
    } catch (const std::bad_alloc&) {  // of what it asked for, a part is lost
      fail(*session, {Reason::RESOURCE, "there is no memory for its requests"});
    }
  }
  return table_.anyWork();
}

/// Looks at every connection for one that keeps the server waiting.
void StoreCore::sweep(TimePoint now) {
  for (const auto& [id, session] : sessions_) {
    if (session->closing) {
      continue;
    }
    if (!session->validated && now - session->lastByte > limits_.helloTime) {
      fail(*session, {Reason::TIMEOUT,
                      str("it did not say hello within ", formatDuration(limits_.helloTime))});
    } else if (!session->parser.idle() && now - session->lastByte > limits_.stalledCommand) {
      fail(*session, {Reason::TIMEOUT, str("it stopped in the middle of a request for ",
                                           formatDuration(limits_.stalledCommand))});
    } else if (session->unsent() > 0 && now - session->lastSent > limits_.stalledReader) {
      fail(*session, {Reason::TIMEOUT, str("it took none of its replies for ",
                                           formatDuration(limits_.stalledReader))});
    }
  }
}

std::optional<ConnectionId> StoreCore::nextTouched() {
  if (touched_.empty()) {
    return std::nullopt;
  }
  const ConnectionId id = touched_.front();
  touched_.pop_front();
  if (Session* session = find(id)) {
    session->touched = false;
  }
  return id;
}

std::vector<ConnectionId> StoreCore::takeTouched() {
  std::vector<ConnectionId> all;
  while (const std::optional<ConnectionId> id = nextTouched()) {
    all.push_back(*id);
  }
  return all;
}

/// Many replies would make a small buffer grow step by step, and a large one may not stay with
/// everyone who once needed it.
void StoreCore::lendBuffer(Session& session) {
  if (session.out.empty() && !spares_.empty()) {
    session.out = std::move(spares_.back());
    spares_.pop_back();
  }
}

void StoreCore::giveBack(std::string& buffer) {
  if (buffer.capacity() <= kSpareCapacity && spares_.size() < kSpares) {
    buffer.clear();
    spares_.push_back(std::move(buffer));
  }
  std::string().swap(buffer);
}

std::string_view StoreCore::unsent(ConnectionId id) const {
  const Session* session = find(id);
  return session == nullptr ? std::string_view()
                            : std::string_view(session->out).substr(session->sent);
}

void StoreCore::sent(ConnectionId id, std::size_t count, TimePoint now) {
  Session* session = find(id);
  if (session == nullptr || count == 0) {
    return;
  }
  session->sent += count;
  session->counted -= count;
  session->lastSent = now;
  unsentBytes_ -= count;
  if (session->unsent() == 0) {
    session->sent = 0;
    session->out.capacity() <= kKeptReply ? session->out.clear() : giveBack(session->out);
  } else if (session->sent >= session->unsent()) {
    // Not erase(): what was sent is to be given back, even if there is always more to send.
    std::string(session->out, session->sent).swap(session->out);
    session->sent = 0;
  }
  if (!session->held.empty() && !session->busy() && session->unsent() <= limits_.unsentPause) {
    latest_ = now;
    carryOut(*session, std::exchange(session->held, {}), now);
  }
}

bool StoreCore::wantsRead(ConnectionId id) const {
  const Session* session = find(id);
  if (session == nullptr || session->closing || session->paused) {
    return false;
  }
  const bool own =
      session->unsent() > limits_.unsentPause || !session->held.empty() || session->busy();
  const bool all = session->unsent() > 0 && unsentBytes_ > limits_.unsentTotal;
  return !own && !all;
}

std::string_view StoreCore::peer(ConnectionId id) const {
  const Session* session = find(id);
  return session == nullptr ? std::string_view() : session->peer;
}

const Status* StoreCore::closing(ConnectionId id) const {
  const Session* session = find(id);
  return session != nullptr && session->closing ? &*session->closing : nullptr;
}

}  // namespace unisono::tcp

#include "simulation/client.hpp"

#include "base/bytes.hpp"
#include "base/str.hpp"
#include "simulation/wire.hpp"
#include "simulation/world.hpp"

namespace unisono::simulation {
namespace {

using linear::Event;
using linear::Op;
using tcp::Query;
using tcp::RequestWriter;
using tcp::Verdict;

constexpr Micros kWayTime = 5'000 * kMilli;  // for delays and pauses on top of a timeout

}  // namespace

Client::Client(World& world, int number, int calls)
    : world_(world), number_(number), callsLeft_(calls) {}

void Client::start() {
  world_.agenda().after(static_cast<Micros>(world_.below(20)) * kMilli, [this] { connect(); });
}

void Client::connect() {
  const std::optional<tcp::ConnectionId> connection = world_.connect(*this);
  if (!connection) {  // refused: nobody is there
    comeBack();
    return;
  }
  connection_ = *connection;
  history_ = &histories_[world_.life()];
  sent_ = consumed_ = 0;
  in_.clear();
  state_ = State::GREETING;
  send(RequestWriter().begin(Query::VALIDATE).u32(tcp::kMagic).begin(Query::PING).u32(7));
}

void Client::send(const RequestWriter& request) {
  sent_ += request.bytes().size();
  world_.send(connection_, request.bytes());
}

void Client::think() {
  state_ = State::IDLE;
  const std::uint64_t number = ++callNumber_;
  // Now and then long enough that others who wait get their turn.
  const std::uint64_t most = world_.below(30) == 0 ? 2'000'000 : 3'000;
  world_.agenda().after(static_cast<Micros>(world_.below(most)), [this, number] {
    if (state_ == State::IDLE && number == callNumber_) {
      beginCall();
    }
  });
}

/// Those that a call of `kind` is about.
std::vector<std::string> Client::keysFor(const Kind& kind) {
  if (kind.keys == 0) {
    return allKeys();
  }
  if (kind.op == Op::CLEAR) {
    static const std::vector<std::string> kTexts = {"/k0", "/k1", "/k2"};
    static const std::vector<std::string> kNumbers = {"/n0", "/n1"};
    const std::uint64_t which = world_.below(8);
    return which == 0 ? allKeys() : which < 4 ? kNumbers : kTexts;
  }
  if (kind.keys == 2) {
    std::vector<std::string> keys = {"/k0", "/k1"};
    // A list may name a key several times; in slices this makes a difference.
    const std::size_t size = kind.op == Op::SET ? 2 : 2 + world_.below(7);
    while (keys.size() < size) {
      keys.push_back(keys[keys.size() - 2]);
    }
    return keys;
  }
  return {isQueueOp(kind.op)      ? key("q", 2)
          : kind.op == Op::ADD    ? key("n", 2)
          : kind.op == Op::ARRIVE ? key("b", 3)
                                  : key("k", 3)};
}

std::string Client::key(const char* kind, std::uint64_t count) {
  return str("/", kind, world_.below(count));
}

Call Client::plan() {
  const Kind& kind = kinds()[world_.below(kinds().size())];
  Call call{.event = {},
            .query = kind.query,
            .answered = kind.answered,
            .waits = kind.waits,
            .then = kind.then};
  Event& event = call.event;
  event.client = number_;
  event.op = kind.op;
  event.keys = keysFor(kind);
  const auto newValue = [&] { return str("<", number_, ".", ++values_, ">"); };
  if (kind.op == Op::SET || kind.op == Op::APPEND || kind.op == Op::PUSH) {
    for (std::size_t i = 0; i < kind.keys; ++i) {
      event.values.push_back(newValue());
    }
  }
  if (kind.op == Op::COMPARE_SET) {
    event.values = {world_.below(2) == 0 ? "" : str("<", number_, ".", values_, ">"), newValue()};
  }
  event.number = kind.op == Op::ADD      ? 1
                 : kind.op == Op::ARRIVE ? static_cast<std::int64_t>(1 + world_.below(4))
                                         : 0;
  // Who waits for its turn at a queue waits longer: others may have been woken first.
  const bool takesTurns = isQueueOp(kind.op) && kind.query == Query::WAIT;
  call.timeout = static_cast<Micros>(world_.below(takesTurns ? 2'000 : 100)) * kMilli;
  return call;
}

void Client::beginCall() {
  if (callsLeft_-- == 0) {
    state_ = State::DONE;
    world_.hangUp(connection_);
    return;
  }
  call_ = plan();
  ask();
}

void Client::ask() {
  call_->event.start = world_.agenda().now();
  state_ = State::CALLING;
  const std::uint64_t number = ++callNumber_;
  send(encode(world_.understood(*call_)));
  if (isSilent(*call_)) {
    unsettled_.push_back(history_->size());
    history_->push_back(call_->event);  // known once a reply has come after it
    call_.reset();
    think();
    return;
  }
  if (call_->waits) {
    world_.agenda().after(call_->timeout, [this, number] { cancel(number); });
  }
  const Micros latest = (call_->waits ? call_->timeout : 0) + kWayTime;
  world_.agenda().after(latest, [this, number] { checkDeadline(number); });
}

void Client::cancel(std::uint64_t number) {
  if (state_ == State::CALLING && number == callNumber_) {
    state_ = State::CANCELING;
    send(RequestWriter().begin(Query::CANCEL_WAIT));
  }
}

void Client::checkDeadline(std::uint64_t number) {
  if (number == callNumber_ && (state_ == State::CALLING || state_ == State::CANCELING)) {
    world_.violate(str("client ", number_, " is still in ", linear::describe(call_->event)));
  }
}

void Client::receive(std::string_view bytes) {
  in_ += bytes;
  read();
}

void Client::read() {
  if (state_ == State::GREETING && in_.size() >= 4) {
    in_.erase(0, 4);
    consumed_ += 4;
    think();
  } else if ((state_ == State::CALLING || state_ == State::CANCELING) && !readReply()) {
    return;
  }
  if (!in_.empty() && (state_ == State::IDLE || state_ == State::DONE)) {
    world_.violate(str("client ", number_, " was told ", in_.size(), " bytes that it did not ask"));
  }
}

/// Takes the reply to the call from what has arrived; false when it is not complete.
bool Client::readReply() {
  ByteReader reader(in_);
  Call call = *call_;
  bool canceled = false;
  bool refused = false;
  if (call.answered || call.waits) {
    const auto verdict = reader.number<std::uint8_t>();
    if (!verdict) {
      return false;
    }
    canceled = *verdict == static_cast<std::uint8_t>(Verdict::CANCELED);
    refused = *verdict > static_cast<std::uint8_t>(Verdict::CANCELED);
  }
  if (refused || (canceled && state_ != State::CANCELING)) {
    world_.violate(str("client ", number_, " got a strange verdict for ", describe(call.event)));
    return false;
  }
  if (!canceled && !decode(reader, call)) {
    return false;
  }
  if (call.event.op == Op::CLEAR &&
      (call.event.result < 0 ||
       call.event.result > static_cast<std::int64_t>(call.event.keys.size()))) {
    world_.violate(
        str("client ", number_, " was told ", call.event.result, " by ", describe(call.event)));
    return false;
  }
  // An answer that crossed the cancellation is followed by its confirmation.
  if (state_ == State::CANCELING && !canceled &&
      reader.number<std::uint8_t>() != std::optional(tcp::kWaitCanceled)) {
    return false;
  }
  const std::size_t used = in_.size() - reader.rest().size();
  in_.erase(0, used);
  consumed_ += used;
  call_ = call;
  if (canceled) {
    world_.noteCanceled();
  }
  finish(canceled);
  return true;
}

void Client::finish(bool canceled) {
  const Micros now = world_.agenda().now();
  for (const std::size_t i : unsettled_) {
    (*history_)[i].known = true;
    (*history_)[i].end = now;
  }
  unsettled_.clear();
  if (!canceled || !world_.beginsInSlices(*call_)) {  // else nobody may have looked at it yet
    const std::vector<Event> said = facts(*call_, canceled, now);
    history_->insert(history_->end(), said.begin(), said.end());
  }
  if (call_->then && !canceled) {
    continueCall();
    return;
  }
  call_.reset();
  think();
}

/// What was waited for is there, or was: now it is asked for.
void Client::continueCall() {
  call_->query = *std::exchange(call_->then, std::nullopt);
  call_->waits = false;
  ask();
}

void Client::crash() {
  if (state_ == State::AWAY || state_ == State::DONE) {
    return;
  }
  world_.hangUp(connection_);
  loseCall();
  comeBack();
}

/// Nobody knows whether it was done.
void Client::loseCall() {
  if (call_ && !call_->then) {
    const std::vector<Event> parts = apart(call_->event);
    history_->insert(history_->end(), parts.begin(), parts.end());
  }
  call_.reset();
  unsettled_.clear();
}

void Client::comeBack() {
  ++callNumber_;
  state_ = State::AWAY;
  world_.agenda().after(static_cast<Micros>(world_.below(50)) * kMilli, [this] { connect(); });
}

void Client::serverDied() {
  if (state_ == State::AWAY || state_ == State::DONE) {
    return;
  }
  if (call_) {
    world_.noteLost();
  }
  loseCall();
  comeBack();
}

void Client::disconnected() {
  if (state_ != State::AWAY && state_ != State::DONE) {
    world_.violate(str("the server closed the connection of client ", number_));
  }
}

const Call* Client::waitingCall(std::uint64_t arrivedAtServer, std::uint64_t sentByServer) const {
  const bool asked = call_ && call_->waits && state_ == State::CALLING;
  return asked && arrivedAtServer == sent_ && sentByServer == consumed_ ? &*call_ : nullptr;
}

}  // namespace unisono::simulation

#include "store/tcp/connection.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/str.hpp"
#include "store/common.hpp"

namespace unisono::tcp {
namespace {

constexpr std::size_t kReplySize = 16 * 1024;

// How long to look for an answer before sleeping.
constexpr std::chrono::microseconds kPatience(20);

// A reply longer than any that a server of ours would send is not a reply.
constexpr std::uint64_t kLongestBlob = std::uint64_t{1} << 32U;

std::string subjectOf(const Call& call, const std::string& place) {
  return call.keys.empty()
             ? str(call.op, " on the store at ", place)
             : str("store key ", shownKeys(call.keys, 4), " at ", place, " (", call.op, ")");
}

}  // namespace

Call::Call(std::string_view name, std::span<const std::string> about, Milliseconds limit)
    : op(name),
      keys(about),
      timeout(limit),
      start(systemClock().now()),
      until(Deadline::after(limit)),
      deadline(std::max(until, Deadline::after(kLeastAnswerTime))) {}

Connection::Connection(Socket socket, std::string place)
    : socket_(std::move(socket)),
      place_(std::move(place)),
      buffer_(std::make_unique_for_overwrite<char[]>(kReplySize)),
      spin_(kPatience) {}

WaitContext Connection::waiting(Deadline until, const Call& call) const {
  return {.deadline = until, .subject = [this, &call] { return subjectOf(call, place_); }};
}

void Connection::send(std::string_view bytes, const Call& call) {
  const WaitContext wait = waiting(call.deadline, call);
  halfSent_ = true;
  const IoResult result = moving([&] { return socket_.sendAll(bytes, wait); });
  halfSent_ = !result.isDone();
  if (result.outcome == IoOutcome::TIMED_OUT) {
    unanswered(call);
  }
  if (!result.isDone()) {
    lost(call, result, "send");
  }
}

/// An answer that comes at once is not slept for.
IoResult Connection::receive(char* data, std::size_t size, const WaitContext& wait) {
  IoResult result;
  const auto look = [&] {
    result = socket_.recvSome(data, size, Deadline::after(Milliseconds(0)));
    return result.outcome != IoOutcome::TIMED_OUT;
  };
  return spin_.until(look) ? result : socket_.recvSome(data, size, wait);
}

/// Receives into the buffer, which is empty; false when nothing came by `until`.
bool Connection::fill(Deadline until, const Call& call) {
  const WaitContext wait = waiting(until, call);
  const IoResult result = moving([&] { return receive(buffer_.get(), kReplySize, wait); });
  in_ = {buffer_.get(), result.bytes};
  if (result.outcome == IoOutcome::TIMED_OUT) {
    return false;
  }
  if (!result.isDone()) {
    lost(call, result, "recv");
  }
  return true;
}

/// Moves what has been received to `data`, at most `size` bytes; returns how many.
std::size_t Connection::takeReady(char* data, std::size_t size) noexcept {
  const std::size_t ready = in_.copy(data, size);
  in_.remove_prefix(ready);
  return ready;
}

void Connection::read(char* data, std::size_t size, const Call& call) {
  std::size_t done = takeReady(data, size);
  while (done < size && size - done < kReplySize) {
    if (!fill(call.deadline, call)) {
      unanswered(call);
    }
    done += takeReady(data + done, size - done);
  }
  if (done < size) {
    readStraight(data + done, size - done, call);
  }
}

/// Large values go straight to where they belong.
void Connection::readStraight(char* data, std::size_t size, const Call& call) {
  const WaitContext wait = waiting(call.deadline, call);
  const IoResult result = moving([&] { return socket_.recvExact(data, size, wait); });
  if (result.outcome == IoOutcome::TIMED_OUT) {
    unanswered(call);
  }
  if (!result.isDone()) {
    lost(call, result, "recv");
  }
}

std::uint8_t Connection::byte(const Call& call) {
  char raw = 0;
  read(&raw, 1, call);
  return static_cast<std::uint8_t>(raw);
}

std::uint32_t Connection::u32(const Call& call) {
  std::uint32_t value = 0;
  read(reinterpret_cast<char*>(&value), sizeof value, call);
  return value;
}

std::int64_t Connection::i64(const Call& call) {
  std::int64_t value = 0;
  read(reinterpret_cast<char*>(&value), sizeof value, call);
  return value;
}

std::string Connection::bytes(std::size_t count, const Call& call) {
  std::string bytes(count, '\0');
  read(bytes.data(), count, call);
  return bytes;
}

std::int64_t Connection::count(const Call& call) {
  const std::int64_t value = i64(call);
  if (value < 0) {
    outOfStep(call, str("the count ", value));
  }
  return value;
}

template <typename Container>
Container Connection::sized(const Call& call) {
  const auto size = static_cast<std::uint64_t>(i64(call));
  if (size > kLongestBlob) {
    outOfStep(call, str("a value of ", size, " bytes"));
  }
  Container bytes;
  // In steps: a server that claims much and sends little must not cost us the memory.
  constexpr std::uint64_t kStep = 8 * 1024 * 1024;
  while (bytes.size() < size) {
    const std::size_t had = bytes.size();
    bytes.resize(had + std::min(kStep, size - had));
    read(reinterpret_cast<char*>(bytes.data()) + had, bytes.size() - had, call);
  }
  return bytes;
}

std::string Connection::blob(const Call& call) {
  return sized<std::string>(call);
}

Bytes Connection::value(const Call& call) {
  return sized<Bytes>(call);
}

std::optional<std::uint8_t> Connection::byteBy(Deadline until, const Call& call) {
  if (in_.empty() && !fill(until, call)) {
    return std::nullopt;
  }
  return byte(call);
}

void Connection::verdict(const Call& call) {
  const std::uint8_t value = byte(call);
  if (value == static_cast<std::uint8_t>(Verdict::REFUSED)) {
    throw DistStoreError(refusal(call));
  }
  if (value != static_cast<std::uint8_t>(Verdict::DONE)) {
    outOfStep(call, str("the verdict ", value));
  }
}

ErrorFacts Connection::refusal(const Call& call) {
  derailed_ = true;
  const Reason reason = reasonWithToken(blob(call)).value_or(Reason::PROTOCOL);
  const std::string text = blob(call);
  derailed_ = false;
  return {.reason = reason,
          .what = call.keys.empty()
                      ? str(call.op, " was refused: ", text)
                      : str(call.op, " of ", shownKeys(call.keys, 4), " was refused: ", text),
          .hint = remedyFor(reason),
          .op = std::string(call.op),
          .host = place_};
}

void Connection::outOfStep(const Call& call, std::string_view what) {
  broken_ = true;
  derailed_ = true;
  throw DistNetworkError({.reason = Reason::PROTOCOL,
                          .what = str("the server at ", place_, " answered ", call.op, " with ",
                                      what, ", which makes no sense"),
                          .hint = "is a TCPStore server listening there?",
                          .op = std::string(call.op),
                          .host = place_});
}

void Connection::unanswered(const Call& call) {
  broken_ = true;
  const std::string about = call.keys.empty() ? "" : str(", keys: ", shownKeys(call.keys));
  throw DistStoreError(
      {.reason = Reason::TIMEOUT,
       .what = str(call.op, " gave up: wait timeout after ", call.timeout.count(), "ms", about,
                   ". The server at ", place_,
                   " does not answer; whether it carried out the call is not known"),
       .hint = "is the server's process stopped or its host overloaded?",
       .op = std::string(call.op),
       .host = place_,
       .elapsed = elapsedSince(call.start)});
}

void Connection::lost(const Call& call, const IoResult& result, std::string_view verb) {
  broken_ = true;
  const std::string how = result.outcome == IoOutcome::CLOSED
                              ? str("Failed to ", verb,
                                    ", got 0 bytes. Connection was likely closed. Did the remote "
                                    "server shutdown or crash?")
                              : result.text();
  throw DistNetworkError(
      {.reason = Reason::STORE_LOST,
       .what = str("lost the store at ", place_, " during ", call.op, ": ", how, whatMayBeLost()),
       .hint = "look at the process that runs the server",
       .op = std::string(call.op),
       .host = place_,
       .elapsed = elapsedSince(call.start)});
}

std::string Connection::whatMayBeLost() const {
  if (unacknowledged > 0) {
    return str(". Not confirmed, and perhaps lost: the last ", unacknowledged,
               unacknowledged == 1 ? " write" : " writes", " of this store");
  }
  return unfenced ? ". Not confirmed, and perhaps lost: the last writes of this store" : "";
}

void Connection::unconfirmed(const Call& call) {
  throw DistNetworkError({.reason = Reason::STORE_LOST,
                          .what = str("lost the store at ", place_, " before ", call.op,
                                      ": a connection had to be given up", whatMayBeLost()),
                          .hint = "is the server's process stopped or its host overloaded?",
                          .op = std::string(call.op),
                          .host = place_,
                          .elapsed = elapsedSince(call.start)});
}

}  // namespace unisono::tcp

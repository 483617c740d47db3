// CoreHarness: drives a StoreCore as a server does, without sockets and in virtual time.
#pragma once

#include <charconv>
#include <gmock/gmock.h>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "store/tcp/codec.hpp"
#include "store/tcp/core.hpp"

namespace unisono::tcp::test {

/// "0d 34 12" as bytes; whatever is not two hexadecimal digits separates them.
inline std::string hex(std::string_view text) {
  std::string bytes;
  while (text.size() >= 2) {
    unsigned byte = 0;
    const char* end = text.data() + 2;
    if (std::from_chars(text.data(), end, byte, 16).ptr == end) {
      bytes.push_back(static_cast<char>(byte));
      text.remove_prefix(2);
    } else {
      text.remove_prefix(1);
    }
  }
  return bytes;
}

inline std::string i64(std::int64_t number) {
  std::string bytes;
  ByteWriter(bytes).number(number);
  return bytes;
}
inline std::string blob(std::string_view content) {
  std::string bytes;
  ByteWriter(bytes).blob(content);
  return bytes;
}
inline const std::string kZero(1, '\0');
inline const std::string kOne(1, '\1');
inline const std::string kHello("\0\xce\xf7\x85\x3c", 5);

/// Requests in short: req(Query::SET).blob("/k").blob("v").
inline RequestWriter req(Query query) {
  return RequestWriter().begin(query);
}
inline RequestWriter ask(Query query) {  // the answered form
  return RequestWriter().begin(query, true);
}
inline RequestWriter setOf(std::string_view key, std::string_view value) {
  return req(Query::SET).blob(key).blob(value);
}
inline RequestWriter pushOf(std::string_view name, std::string_view element) {
  return req(Query::QUEUE_PUSH).blob(name).blob(element);
}
inline RequestWriter waitOf(const std::vector<std::string>& keys) {
  return req(Query::WAIT).keys(keys);
}

class CoreHarness {
 public:
  explicit CoreHarness(const StoreLimits& limits = {}, const std::optional<Key>& key = std::nullopt)
      : core(limits, {}, key) {}

  StoreCore core;
  TimePoint now = TimePoint(std::chrono::hours(1));

  /// A connection that has said nothing yet.
  ConnectionId open(bool needsNoProof = false) {
    core.open(++last_, "10.1.2.3:4", now, needsNoProof);
    pump();
    return last_;
  }
  /// A connection that has said hello.
  ConnectionId connect() {
    const ConnectionId id = open();
    send(id, kHello);
    return id;
  }

  void send(ConnectionId id, std::string_view bytes) {
    core.receive(id, bytes, now);
    pump();
  }
  void send(ConnectionId id, const RequestWriter& request) { send(id, request.bytes()); }

  /// Sends, and returns what came back.
  std::string ask(ConnectionId id, const RequestWriter& request) {
    send(id, request);
    return take(id);
  }

  /// Time passes, with a tick every 100 ms as in the servers.
  void pass(Milliseconds time) {
    for (const TimePoint end = now + time; now < end;) {
      now += std::min(std::chrono::duration_cast<Milliseconds>(end - now), Milliseconds(100));
      core.tick(now);
      pump();
    }
  }

  /// The replies that have come since the last call.
  std::string take(ConnectionId id) { return std::exchange(received_[id], {}); }

  bool isOpen(ConnectionId id) const { return id <= last_ && !closed_.contains(id); }
  /// Why the core closed it; "" when it did not.
  std::string why(ConnectionId id) const {
    const auto found = closed_.find(id);
    return found == closed_.end() || found->second.isOk() ? "" : found->second.text();
  }
  Reason reason(ConnectionId id) const { return closed_.at(id).reason(); }

  /// The client goes away.
  void disconnect(ConnectionId id) {
    core.close(id);
    closed_.emplace(id, Status::ok());
    pump();
  }

  /// From now on the client takes no replies.
  void stopTaking(ConnectionId id) { deaf_.insert(id); }
  void takeAgain(ConnectionId id) {
    deaf_.erase(id);
    flush(id);
  }

  /// Takes replies and closes connections, and goes on with what is done in slices, as a server
  /// does.
  void pump() {
    takeReplies();
    while (working && core.work(now)) {
      takeReplies();
    }
    takeReplies();
  }

  /// One turn of a server, in which nothing has arrived; false when nothing is left to do.
  bool turn() {
    const bool more = core.work(now);
    takeReplies();
    return more;
  }

  bool working = true;  // whether pump() goes on until all is done

 private:
  void takeReplies() {
    for (const ConnectionId id : core.takeTouched()) {
      flush(id);
    }
  }

  void flush(ConnectionId id) {
    if (!deaf_.contains(id)) {
      const std::string_view bytes = core.unsent(id);
      received_[id] += bytes;
      core.sent(id, bytes.size(), now);
    }
    if (const Status* why = core.closing(id)) {
      closed_.emplace(id, *why);
      core.close(id);
      takeReplies();
    }
  }

  ConnectionId last_ = 0;
  std::map<ConnectionId, std::string> received_;
  std::map<ConnectionId, Status> closed_;
  std::set<ConnectionId> deaf_;
};

}  // namespace unisono::tcp::test

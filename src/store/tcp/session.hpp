// Session: one client as the server core sees it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "store/tcp/codec.hpp"
#include "store/tcp/entrance.hpp"

namespace unisono::tcp {

using ConnectionId = std::uint64_t;

struct Session {
  Session(ConnectionId number, std::string from, const StoreLimits& limits, TimePoint now)
      : id(number), peer(std::move(from)), parser(limits), lastByte(now), lastSent(now) {}

  /// The request whose answer is still owed.
  struct Pending {
    Query query;
    bool answered;
    std::vector<std::string> keys = {};  // what GET and MULTI_GET return when they are woken
  };

  const ConnectionId id;
  const std::string peer;
  RequestParser parser;
  std::unique_ptr<Entrance> entrance;  // while it proves that it knows the secret
  bool needsNoProof = false;           // and may say hello without one
  bool validated = false;
  bool paused = false;            // not read from until others have completed their requests
  bool touched = false;           // is on the core's list of sessions to look at
  std::optional<Status> closing;  // why the connection is to be closed
  std::optional<Pending> pending;
  std::optional<std::string> claim;  // a queue that a push woke it for; see KvTable::passOn
  TimePoint claimedAt{};
  bool claimListed = false;  // is on the core's list of claims
  TimePoint lastByte;
  TimePoint lastSent;  // when replies last went out, or began to wait
  std::string held;    // requests whose turn comes when enough replies have gone, or it is not busy
  std::string out;     // replies; the first `sent` bytes have gone
  std::size_t sent = 0;
  std::size_t counted = 0;  // how much of the unsent bytes the core has counted
  std::size_t partial = 0;  // how much of an incomplete request the core has counted

  std::size_t unsent() const noexcept { return out.size() - sent; }
  /// Whether its last request is being carried out: unlike a wait, no other may overtake it.
  bool busy() const noexcept { return pending && pending->query == Query::DELETE_PREFIX; }
};

}  // namespace unisono::tcp

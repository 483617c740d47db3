// Roster: who the ranks of a group are and where they are reached, as they all agree.
//
// Every rank leaves a card in the store. Rank 0 collects them, sees whether they fit together, and
// leaves the list of all; the others wait for that list only. So a group of P ranks costs the store
// P cards and P lists, and a group that cannot be formed fails on all ranks with the same cause.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/store/store.hpp"

#include "base/clock.hpp"
#include "life/abort_record.hpp"
#include "net/address.hpp"

namespace unisono::mesh {

/// A rank, as its card says.
struct Member {
  std::string host;      // hostId()
  std::string process;   // encodeMark()
  std::string settings;  // what all members must have set alike
  std::string address;   // numeric
  std::uint16_t port = 0;

  std::string encode() const;
  static std::optional<Member> decode(std::string_view bytes);
};

/// By rank.
using Roster = std::vector<Member>;

/// What a rank brings along.
struct MeetOptions {
  StorePtr store;
  int rank = 0;
  int size = 1;
  std::string group;   // its name, for messages
  std::string cookie;  // its id, 32 hexadecimal digits: the same on all ranks
  Milliseconds timeout{};
  Milliseconds spent{};  // of it, before the meeting
  std::vector<int> globalRanks = {};
  std::string root = {};  // the process of rank 0, encodeMark(), where it is known before its card
};

/// Why a rank that has left its card will not be in the group, if so: it is asked again and again
/// while others are waited for.
using FindOut = std::function<std::optional<AbortCause>(int rank, const Member& member)>;

/// Meets the others. Throws DistError: TIMEOUT naming who is missing, CONFIG for members that do
/// not fit together, what `findOut` has found, DistStoreError when the store fails.
Roster meet(const MeetOptions& options, const Member& self, const FindOut& findOut);

/// The address of this host at which others reach this process: UNISONO_HOST_ADDR, the first of
/// the interface UNISONO_IFNAME, the one that leads to the host of `store`, or else loopback.
/// Throws UsageError (CONFIG).
SocketAddress ownAddress(const StorePtr& store, Deadline deadline);

/// Where others are told to connect to when this process listens at `own`: UNISONO_ADVERTISE, with
/// the port of `own` unless that has one; or `own`. Throws UsageError (CONFIG).
SocketAddress announcedAddress(const SocketAddress& own, Deadline deadline);

}  // namespace unisono::mesh

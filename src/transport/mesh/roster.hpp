// Roster: who the ranks of a group are and where they are reached, as they all agree.
//
// Every rank leaves a card in the store. Rank 0 collects them, sees whether they fit together, and
// leaves the list of all; the others wait for that list only. So a group of P ranks costs the store
// P cards and P lists, and a group that cannot be formed fails on all ranks with the same cause.
// Who is the last to have the list of a group takes everything out of the store.
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
  std::string host;                      // hostId()
  std::string process;                   // encodeMark()
  std::string settings;                  // what all members must have set alike
  std::vector<HostPort> addresses = {};  // numeric; where it is reached, the best one first

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

/// What is heard and said where the ranks have learnt of the group.
struct Hearsay {
  /// Rank 0, while others are waited for: the word of a rank that it will not leave a card, if
  /// there is one. `hasCome` knows who has left one after all.
  std::function<std::optional<AbortCause>(const std::function<bool(int)>& hasCome)> declined = {};
  /// Rank 0 of a group that nobody knows yet: tells them of it, once its card is there.
  std::function<void()> announce = {};
  /// Rank 0, once all have come and before they go on: takes back what they have learnt of the
  /// group by, since their next one may use the same key.
  std::function<void()> close = {};
  /// The others, while rank 0 has not left its card: the word of those who saw it die.
  std::function<std::optional<AbortCause>()> saidForRoot = {};
};

/// Meets the others. Throws DistError: TIMEOUT naming who is missing, CONFIG for members that do
/// not fit together, what `findOut` has found or `hearsay` says, DistStoreError when the store
/// fails.
Roster meet(const MeetOptions& options, const Member& self, const FindOut& findOut,
            const Hearsay& hearsay = {});

/// The addresses of this host at which others reach this process, the best one first:
/// UNISONO_HOST_ADDR; those of the interfaces that UNISONO_IFNAME or GLOO_SOCKET_IFNAME names; the
/// one that leads to the host of `store`, and the others of that interface; or else loopback.
/// Link-local ones only where there is nothing else. Throws UsageError (CONFIG).
std::vector<SocketAddress> ownAddresses(const StorePtr& store, Deadline deadline);

/// Where others are told to connect to when this process listens at `own`: UNISONO_ADVERTISE, with
/// the port of the first of them unless that has one; or `own`. Throws UsageError (CONFIG).
std::vector<SocketAddress> announcedAddresses(const std::vector<SocketAddress>& own,
                                              Deadline deadline);

}  // namespace unisono::mesh

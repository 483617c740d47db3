#include "transport/mesh/roster.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/str.hpp"
#include "life/blame.hpp"
#include "transport/mesh/wire.hpp"

namespace unisono::mesh {
namespace {

// How long the store is waited for before somebody looks whether those who have come still live.
// Many ranks ask more rarely, so that together they leave the store time for others.
constexpr Milliseconds kShortestSlice(200);
constexpr Milliseconds kLongestSlice(1000);
constexpr Milliseconds kSlicePerRank(5);
// A look around ends after so long, and the next goes on from there.
constexpr Milliseconds kLook(100);
constexpr char kAccepted = 'A';
constexpr char kRefused = 'R';

std::string encode(const Roster& roster) {
  std::string bytes;
  ByteWriter out(bytes);
  for (const Member& member : roster) {
    out.blob(member.encode());
  }
  return bytes;
}

std::optional<Roster> decode(std::string_view bytes) {
  ByteReader in(bytes);
  Roster roster;
  while (!in.rest().empty()) {
    const auto blob = in.blob();
    auto member = blob ? Member::decode(*blob) : std::nullopt;
    if (!member) {
      return std::nullopt;
    }
    roster.push_back(std::move(*member));
  }
  return roster;
}

/// One rank's side of a meeting.
class Meeting {
 public:
  Meeting(const MeetOptions& options, const Member& self, const FindOut& findOut,
          const Hearsay& hearsay)
      : options_(options),
        self_(self),
        findOut_(findOut),
        hearsay_(hearsay),
        slice_(std::clamp(options.size * kSlicePerRank, kShortestSlice, kLongestSlice)),
        come_(static_cast<std::size_t>(options.size)),
        deadline_(Deadline::after(options.timeout - options.spent)),
        start_(systemClock().now()) {}

  Roster run() {
    leaveCard();
    announce();
    if (options_.rank != 0) {
      Roster roster = awaitRoster();
      settle();
      return roster;
    }
    try {
      Roster roster = collect();
      if (hearsay_.close) {
        hearsay_.close();
      }
      publish(kAccepted, encode(roster));
      settle();
      return roster;
    } catch (const Failed& failed) {
      publish(kRefused, encodeCause(failed.cause));
      blame(failed.cause);
    }
  }

 private:
  struct Failed {
    AbortCause cause;
  };

  std::string key(std::string_view what) const {
    return str("unisono/mesh/", options_.cookie, "/", what);
  }
  std::string cardKey(int rank) const { return key(str("card/", rank)); }
  std::vector<std::string> cardKeys(const std::vector<int>& ranks) const {
    std::vector<std::string> keys;
    keys.reserve(ranks.size());
    for (const int rank : ranks) {
      keys.push_back(cardKey(rank));
    }
    return keys;
  }
  std::string nameOf(int rank) const {
    const auto at = static_cast<std::size_t>(rank);
    return str("rank ", options_.globalRanks.empty() ? rank : options_.globalRanks.at(at));
  }

  void leaveCard() {
    const std::string card = self_.encode();
    const Bytes there = options_.store->compareSet(cardKey(options_.rank), {}, asBytes(card));
    if (asText(there) == card) {
      return;
    }
    const auto other = Member::decode(asText(there));
    const auto theirs = other ? decodeMark(other->process) : std::nullopt;
    const auto mine = decodeMark(self_.process);
    const AbortCause cause{
        .reason = Reason::CONFIG,
        .culprits = {options_.rank},
        .reporter = options_.rank,
        .text = str(nameOf(options_.rank), " of group '", options_.group, "' is claimed twice",
                    theirs && mine ? str(": by process ", theirs->pid, " on ", theirs->host,
                                         " and by process ", mine->pid, " on ", mine->host)
                                   : std::string())};
    decline(cause);  // nobody can say which of the two is right
    ErrorFacts known = facts();
    known.reason = cause.reason;
    known.what = cause.text;
    known.hint = "give every process its own rank, and every group its own name or store prefix";
    throw DistBackendError(std::move(known));
  }

  void announce() {
    try {
      if (hearsay_.announce) {
        hearsay_.announce();
      }
    } catch (const DistError&) {
      options_.store->deleteKey(cardKey(options_.rank));  // which nobody would look for
      throw;
    }
  }

  /// Tells rank 0, if it still waits for others, why there will be no group.
  void decline(const AbortCause& cause) {
    options_.store->set(key("decline"), asBytes(encodeCause(cause)));
  }

  /// Rank 0: whether somebody has declined. Throws Failed.
  void checkDeclines() {
    if (awaitKey(key("decline"), Milliseconds(0))) {
      const Bytes bytes = options_.store->get(key("decline"));
      throw Failed{decodeCause(asText(bytes)).value_or(AbortCause{})};
    }
    const auto cause = hearsay_.declined ? hearsay_.declined([this](int rank) {
      return hasCome(rank) || awaitKey(cardKey(rank), Milliseconds(0));
    })
                                         : std::nullopt;
    if (cause) {
      throw Failed{*cause};
    }
  }

  void publish(char verdict, const std::string& bytes) {
    options_.store->set(key("roster"), asBytes(verdict + bytes));
  }

  /// Once this rank knows the roster: the last one to do so leaves nothing behind. Not before:
  /// as long as a card is there, who claims its rank a second time is found out.
  void settle() {
    if (options_.store->add(key("settled"), 1) < options_.size) {
      return;
    }
    for (int rank = 0; rank < options_.size; ++rank) {
      options_.store->deleteKey(cardKey(rank));
    }
    for (const char* what : {"decline", "roster", "settled"}) {
      options_.store->deleteKey(key(what));
    }
  }

  /// Rank 0: all cards. Throws Failed.
  Roster collect() {
    come_.front() = self_;
    checkReachable(self_, 0);
    std::vector<int> missing(static_cast<std::size_t>(options_.size) - 1);
    std::iota(missing.begin(), missing.end(), 1);
    while (!missing.empty()) {  // ends with the deadline
      if (awaitKeys(cardKeys(missing), slice_)) {
        readCards(missing);
      } else if (deadline_.expired()) {
        throw Failed{whoIsMissing()};
      } else {
        lookAround();
      }
      std::erase_if(missing, [this](int rank) { return hasCome(rank); });
    }
    Roster roster;
    for (std::optional<Member>& member : come_) {
      roster.push_back(std::move(*member));
    }
    return roster;
  }

  /// Whether they are there, after `patience` at the latest. Not by check(): that has no deadline
  /// here.
  bool awaitKeys(std::span<const std::string> names, Milliseconds patience) {
    try {
      options_.store->wait(names, deadline_.within(patience).remaining());
      return true;
    } catch (const DistStoreError& error) {
      if (error.reason() != Reason::TIMEOUT) {
        throw;
      }
      return false;
    }
  }

  bool awaitKey(const std::string& name, Milliseconds patience) {
    return awaitKeys({&name, 1}, patience);
  }

  bool isThere(const std::string& name) { return options_.store->check({&name, 1}); }
  bool hasCome(int rank) const { return come_[static_cast<std::size_t>(rank)].has_value(); }

  /// Rank 0: those who have come meanwhile, whoever is waited for; and whether all who have come
  /// still are there. Throws Failed.
  void lookAround() {
    checkDeclines();
    const Deadline end = Deadline::after(kLook);
    for (int i = 1; i < options_.size && !end.expired(); ++i) {
      lookedAt_ = lookedAt_ % (options_.size - 1) + 1;
      if (!hasCome(lookedAt_) && awaitKey(cardKey(lookedAt_), Milliseconds(0))) {
        readCards({lookedAt_});
      }
      if (hasCome(lookedAt_)) {
        if (const auto cause = findOut_(lookedAt_, *come_[static_cast<std::size_t>(lookedAt_)])) {
          checkDeclines();  // one that is gone may have said why
          throw Failed{*cause};
        }
      }
    }
  }

  /// Rank 0: the cards of `ranks`, which are there. Throws Failed.
  void readCards(const std::vector<int>& ranks) {
    const std::vector<Bytes> cards = options_.store->multiGet(cardKeys(ranks));
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      readCard(ranks[i], asText(cards[i]));
    }
  }

  void readCard(int rank, std::string_view card) {
    std::optional<Member>& member = come_[static_cast<std::size_t>(rank)];
    member = Member::decode(card);
    if (!member) {
      throw Failed{
          {.reason = Reason::PROTOCOL,
           .culprits = {rank},
           .reporter = 0,
           .text = str("what ", nameOf(rank), " left in the store for group '", options_.group,
                       "' is not understood: all ranks must run the same version of unisono")}};
    }
    checkFits(*member, rank);
  }

  /// Once time is over.
  AbortCause whoIsMissing() {
    std::vector<int> missing;
    std::vector<std::string> names;
    for (int rank = 0; rank < options_.size; ++rank) {
      if (rank != options_.rank && !isThere(cardKey(rank))) {
        missing.push_back(rank);
        names.push_back(nameOf(rank).substr(std::string_view("rank ").size()));
      }
    }
    if (missing.empty()) {
      return {.reason = Reason::TIMEOUT,
              .culprits = {0},
              .reporter = options_.rank,
              .text = str("group '", options_.group, "' was not formed in ",
                          formatDuration(options_.timeout), ": ", nameOf(0),
                          " has not told who its members are")};
    }
    return {.reason = Reason::TIMEOUT,
            .culprits = missing,
            .reporter = options_.rank,
            .text = str("group '", options_.group, "' was not formed in ",
                        formatDuration(options_.timeout), ": ",
                        static_cast<std::size_t>(options_.size) - missing.size(), " of ",
                        options_.size, " ranks have come, not ",
                        names.size() == 1 ? "rank " : "ranks ", join(names, ", "))};
  }

  [[noreturn]] void refuse(int culprit, std::string_view text) const {
    throw Failed{{.reason = Reason::CONFIG,
                  .culprits = {culprit},
                  .reporter = 0,
                  .text = str("group '", options_.group, "' cannot be formed: ", text)}};
  }

  /// Whether rank `rank` fits to those who came before it.
  void checkFits(const Member& other, int rank) {
    if (other.settings != self_.settings) {
      refuse(rank, str(nameOf(rank), " has other settings than ", nameOf(0), ": '",
                       printable(other.settings), "', not '", printable(self_.settings), "'"));
    }
    checkReachable(other, rank);
  }

  /// Whether hosts are reached by more than loopback where there are several of them.
  void checkReachable(const Member& member, int rank) {
    const auto process = decodeMark(member.process);
    if (!process) {
      return;
    }
    const Seen seen{.rank = rank, .boot = process->boot, .host = process->host};
    const bool isLoopback = std::ranges::all_of(member.addresses, [](const HostPort& each) {
      const auto address = SocketAddress::parse(each.host, each.port);
      return address && address->isLoopback();
    });
    for (const std::optional<Seen>& one : {first_, elsewhere_}) {
      if (isLoopback && one && one->boot != seen.boot) {
        refuseLoopback(seen, one->rank);
      }
    }
    if (loopback_ && loopback_->boot != seen.boot) {
      refuseLoopback(*loopback_, rank);
    }
    if (isLoopback && !loopback_) {
      loopback_ = seen;
    }
    if (!first_) {
      first_ = seen;
    } else if (!elsewhere_ && first_->boot != seen.boot) {
      elsewhere_ = seen;
    }
  }

  struct Seen {
    int rank = 0;
    std::string boot;
    std::string host;
  };
  [[noreturn]] void refuseLoopback(const Seen& fault, int other) const {
    refuse(fault.rank,
           str(nameOf(fault.rank), " (on ", fault.host,
               ") is reached by a loopback address only, and ", nameOf(other),
               " is on another host; set UNISONO_HOST_ADDR or UNISONO_IFNAME there, or give the "
               "store a host name that other hosts can reach"));
  }

  /// Why rank 0 will tell nothing any more, if so.
  std::optional<AbortCause> whyNoRoot() {
    std::optional<Member>& root = come_.front();
    if (!root && awaitKey(cardKey(0), Milliseconds(0))) {
      root = Member::decode(asText(options_.store->get(cardKey(0))));
    }
    if (root) {
      return findOut_(0, *root);
    }
    if (const auto said = hearsay_.saidForRoot ? hearsay_.saidForRoot() : std::nullopt) {
      return said;
    }
    if (options_.root.empty()) {
      return std::nullopt;
    }
    Member announced;
    announced.process = options_.root;
    return findOut_(0, announced);
  }

  Roster awaitRoster() {
    const std::string name = key("roster");
    while (!awaitKey(name, slice_)) {
      if (deadline_.expired()) {
        const AbortCause cause = whoIsMissing();
        decline(cause);
        blame(cause);
      }
      // It may have told them, and be done with the group by now.
      if (const auto cause = whyNoRoot(); cause && !awaitKey(name, Milliseconds(0))) {
        if (cause->reason == Reason::PEER_DEAD) {
          // For those who do not see it. Not over a list that it has left in its last moment.
          const std::string refusal = kRefused + encodeCause(*cause);
          options_.store->compareSet(name, {}, asBytes(refusal));
        }
        blame(*cause);
      }
    }
    const Bytes bytes = options_.store->get(name);
    const std::string_view text = asText(bytes);
    if (text.starts_with(kRefused)) {
      if (const auto cause = decodeCause(text.substr(1))) {
        blame(*cause);
      }
    }
    auto roster = text.starts_with(kAccepted) ? decode(text.substr(1)) : std::nullopt;
    if (!roster || roster->size() != static_cast<std::size_t>(options_.size)) {
      ErrorFacts known = facts();
      known.reason = Reason::PROTOCOL;
      known.what =
          str("what rank 0 left in the store for group '", options_.group, "' is not understood");
      known.hint = "all ranks must run the same version of unisono, and name the same size";
      throw DistBackendError(std::move(known));
    }
    return std::move(*roster);
  }

  ErrorFacts facts() const {
    return {.reason = Reason::TIMEOUT,
            .op = "init",
            .group = options_.group,
            .rank = options_.rank,
            .world = options_.size,
            .elapsed = elapsedSince(start_)};
  }

  [[noreturn]] void blame(const AbortCause& cause) const {
    std::vector<int> culprits = cause.culprits;
    for (int& rank : culprits) {
      const auto at = static_cast<std::size_t>(rank);
      rank = at < options_.globalRanks.size() ? options_.globalRanks[at] : rank;
    }
    throwCause(cause, facts(), std::move(culprits));
  }

  const MeetOptions& options_;
  const Member& self_;
  const FindOut& findOut_;
  const Hearsay& hearsay_;
  const Milliseconds slice_;
  std::vector<std::optional<Member>> come_;  // whose cards were read
  int lookedAt_ = 0;                         // by lookAround(), last
  std::optional<Seen> first_;                // rank 0, who looks whether they fit together;
  std::optional<Seen> elsewhere_;            // the first on another host than that,
  std::optional<Seen> loopback_;             // and with a loopback address: enough to compare with
  const Deadline deadline_;
  const TimePoint start_;
};

}  // namespace

Roster meet(const MeetOptions& options, const Member& self, const FindOut& findOut,
            const Hearsay& hearsay) {
  return Meeting(options, self, findOut, hearsay).run();
}

}  // namespace unisono::mesh

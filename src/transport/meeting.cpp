#include "transport/meeting.hpp"

#include <algorithm>
#include <utility>

#include "base/bytes.hpp"
#include "base/host.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "base/str.hpp"
#include "life/blame.hpp"

namespace unisono {
namespace {

constexpr std::string_view kRootKey = "unisono/root";
constexpr std::string_view kDeclineKey = "unisono/decline/";  // and the cookie
constexpr std::size_t kNumberSize = 32;                       // of randomId()

std::string textOf(const Bytes& bytes) {
  return std::string(asText(bytes));
}

}  // namespace

Meeting::Meeting(const FormOptions& options)
    : options_(options),
      deadline_(Deadline::after(options.timeout)),
      successor_(deadline_.within(kSuccessorTime)),
      start_(systemClock().now()),
      here_(thisProcess()) {}

RootRecord Meeting::aboutRoot(std::uint32_t version) const {
  return {.version = version,
          .size = static_cast<std::uint32_t>(options_.size),
          .host = hostId(),
          .process = encodeMark(here_),
          .socket = "",
          .cookie = ""};
}

void Meeting::announce(const RootRecord& root) {
  earlier_ = read(kEarlyDeclineKey);
  const std::string record = root.encode();
  std::string before;  // what we believe to be there: nothing
  for (int attempt = 0; attempt < 2; ++attempt) {
    const std::string there =
        textOf(options_.store->compareSet(std::string(kRootKey), asBytes(before), asBytes(record)));
    if (there == record) {
      announced_ = true;
      return;
    }
    const auto other = RootRecord::decode(there);
    const auto process = other ? decodeMark(other->process) : std::nullopt;
    if (process && other->refusal.empty() && lifeOf(*process, here_) != Life::GONE) {
      ErrorFacts known = facts();
      known.reason = Reason::CONFIG;
      known.what =
          str("rank 0 of group '", options_.group, "' is claimed twice: by process ", process->pid,
              " on ", process->host, " and by process ", here_.pid, " on ", here_.host);
      known.hint = "give every process its own rank, and every group its own name or store prefix";
      throw DistBackendError(std::move(known));
    }
    before = there;  // left by a group that died, or never was
  }
}

void Meeting::stayAway() noexcept {
  try {
    const bool isRank = options_.rank >= 0 && options_.rank < options_.size;
    const std::string who = isRank ? inWords({options_.rank}) : str("rank ", options_.rank);
    Reason reason = Reason::ABORTED;
    std::string text = str(who, " has left while group '", options_.group, "' was formed");
    try {
      throw;
    } catch (const DistError& error) {
      // The others have used nothing wrongly.
      reason = error.reason() == Reason::USAGE ? Reason::CONFIG : error.reason();
      text = error.facts().what;
    } catch (...) {  // an interrupt, or no memory
    }
    if (options_.rank == 0) {
      return refuse(reason, text);
    }
    const Decline mine{.rank = static_cast<std::uint32_t>(options_.rank),
                       .reason = reason,
                       .text = str(who, " cannot be in group '", options_.group, "': ", text)};
    options_.store->set(std::string(kEarlyDeclineKey), asBytes(str(randomId(), mine.encode())));
  } catch (const std::exception& second) {
    UNISONO_LOG(INFO, "transport", "the ranks of group '", options_.group,
                "' cannot be told that there is none: ", second.what());
  } catch (...) {  // an interrupt: what is being thrown already is as good
  }
}

void Meeting::refuse(Reason reason, const std::string& text) {
  RootRecord refusal = aboutRoot(0);
  refusal.reason = reason;
  refusal.refusal = text;
  announce(refusal);
}

std::optional<Decline> Meeting::takeDecline(const RootRecord& root, Milliseconds patience,
                                            const std::function<bool(int)>& hasCome) {
  // Waiting for what rank 0 has put there itself: a store that is gone does not answer.
  options_.store->wait({std::string(kRootKey)}, deadline_.within(patience).remaining());
  const std::string key = str(kDeclineKey, root.cookie);
  const std::string record = read(key);
  if (record.empty()) {
    return takeEarlyDecline(hasCome);
  }
  options_.store->deleteKey(key);
  const auto decline = Decline::decode(record);
  return decline && decline->rank < root.size ? decline : std::nullopt;
}

std::optional<Decline> Meeting::takeEarlyDecline(const std::function<bool(int)>& hasCome) {
  const std::string record = read(kEarlyDeclineKey);
  if (record.empty() || (record == earlier_ && !successor_.expired())) {
    return std::nullopt;
  }
  options_.store->deleteKey(std::string(kEarlyDeclineKey));
  const auto decline =
      Decline::decode(std::string_view(record).substr(std::min(record.size(), kNumberSize)));
  const auto size = static_cast<std::uint32_t>(options_.size);
  const bool came = decline && decline->rank < size && hasCome(static_cast<int>(decline->rank));
  return came ? std::nullopt : decline;
}

void Meeting::moveToTcp(const RootRecord& root) {
  RootRecord moved = root;
  moved.socket.clear();
  options_.store->set(std::string(kRootKey), asBytes(moved.encode()));
}

void Meeting::close() {
  options_.store->deleteKey(std::string(kRootKey));
  if (!earlier_.empty()) {
    options_.store->deleteKey(std::string(kEarlyDeclineKey));
  }
}

std::string Meeting::read(std::string_view key) {
  const std::string name(key);
  return options_.store->check({name}) ? textOf(options_.store->get(name)) : std::string();
}

std::string Meeting::announcement() {
  return read(kRootKey);
}

RootRecord Meeting::awaitRoot() {
  try {
    options_.store->wait({std::string(kRootKey)}, deadline_.remaining());
    if (auto record = RootRecord::decode(textOf(options_.store->get(std::string(kRootKey))))) {
      return *record;
    }
  } catch (const DistStoreError& error) {
    if (error.reason() != Reason::TIMEOUT) {
      throw;
    }
    blame({.reason = Reason::TIMEOUT,
           .culprits = {0},
           .text = str("group '", options_.group, "' was not formed in ",
                       formatDuration(options_.timeout), ": rank 0 has not come")});
  } catch (const DistError&) {
    throw;
  } catch (...) {
    stayAway();  // rank 0 may still come
    throw;
  }
  throw DistBackendError({.reason = Reason::PROTOCOL,
                          .what = str("what rank 0 left in the store for group '", options_.group,
                                      "' is not understood"),
                          .hint = "all ranks must run the same version of unisono"});
}

void Meeting::decline(const RootRecord& root, Reason reason, const std::string& text) noexcept {
  try {
    const Decline mine{
        .rank = static_cast<std::uint32_t>(options_.rank), .reason = reason, .text = text};
    options_.store->set(str(kDeclineKey, root.cookie), asBytes(mine.encode()));
  } catch (const std::exception& second) {
    UNISONO_LOG(INFO, "transport", "rank 0 of group '", options_.group,
                "' cannot be told that rank ", options_.rank, " does not come: ", second.what());
  } catch (...) {  // as in stayAway()
  }
}

void Meeting::speakFor(const RootRecord& root, const AbortCause& cause) noexcept {
  try {
    const std::string there = announcement();
    auto record = RootRecord::decode(there);
    if (record && record->cookie == root.cookie) {  // else a successor has come
      record->socket.clear();
      record->reason = cause.reason;
      record->refusal = cause.text;
      options_.store->compareSet(std::string(kRootKey), asBytes(there), asBytes(record->encode()));
    }
  } catch (const std::exception& second) {
    UNISONO_LOG(INFO, "transport", "the ranks of group '", options_.group,
                "' elsewhere cannot be told that rank 0 is gone: ", second.what());
  } catch (...) {  // as in stayAway()
  }
}

std::optional<AbortCause> Meeting::whatWasSaidFor(const std::string& cookie) {
  // A get() would wait where rank 0 has just taken it away.
  constexpr std::string_view kNothing = "?";
  const Bytes there = options_.store->compareSet(kRootKey, asBytes(kNothing), asBytes(kNothing));
  const auto record = RootRecord::decode(asText(there));
  if (!record || record->cookie != cookie || record->refusal.empty()) {
    return std::nullopt;
  }
  return AbortCause{.reason = record->reason, .culprits = {0}, .text = printable(record->refusal)};
}

bool Meeting::isAlive(const RootRecord& root) const {
  const auto process = decodeMark(root.process);
  return process && lifeOf(*process, here_) != Life::GONE &&
         !(process->pidNamespace == here_.pidNamespace && isDumpingCore(process->pid));
}

ErrorFacts Meeting::facts() const {
  return {.reason = Reason::TIMEOUT,
          .op = "init",
          .group = options_.group,
          .rank = options_.rank,
          .world = options_.size,
          .elapsed = elapsedSince(start_)};
}

std::string Meeting::inWords(const std::vector<int>& ranks) const {
  std::vector<std::string> names;
  for (const int rank : inWorld(ranks, options_.globalRanks)) {
    names.push_back(str(rank));
  }
  return str(names.size() == 1 ? "rank " : "ranks ", join(names, ", "));
}

void Meeting::blame(const AbortCause& cause) const {
  throwCause(cause, facts(), inWorld(cause.culprits, options_.globalRanks));
}

void stayAway(const FormOptions& options) noexcept {
  try {
    Meeting(options).stayAway();
  } catch (const std::exception& error) {
    UNISONO_LOG(INFO, "transport", "the ranks of group '", options.group,
                "' cannot be told that there is none: ", error.what());
  }
}

std::vector<int> inWorld(const std::vector<int>& ranks, const std::vector<int>& globalRanks) {
  std::vector<int> counted;
  for (const int rank : ranks) {
    counted.push_back(globalRanks.empty() ? rank : globalRanks[static_cast<std::size_t>(rank)]);
  }
  return counted;
}

}  // namespace unisono

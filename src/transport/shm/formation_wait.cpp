// Who has the memory waits for the others here, and finds out why somebody does not come.
#include <algorithm>

#include "base/futex.hpp"
#include "base/str.hpp"
#include "base/wait.hpp"
#include "transport/shm/formation.hpp"

namespace unisono::shm {
namespace {

/// Sleeps on the word that every newcomer and the last one wake.
class FormedWaitable final : public Waitable {
 public:
  explicit FormedWaitable(const std::atomic<std::uint32_t>& word) : word_(word) {}
  void sleep(Milliseconds most) override { futexWait(word_, 0, std::min(most, Milliseconds(5))); }

 private:
  const std::atomic<std::uint32_t>& word_;
};

}  // namespace

void Formation::awaitAll(Segment& segment) {
  std::atomic<std::uint32_t>& formed = segment.header().formed;
  FormedWaitable on(formed);
  const auto ready = [&] {
    const std::optional<AbortCause> trouble = findTrouble(segment);
    // Looked at last: others may have begun to work, and failed, before this rank looks. Its own
    // first operation tells it of that.
    if (formed.load(std::memory_order_acquire) == 1) {
      return true;
    }
    if (trouble) {
      fail(segment, *trouble);
    }
    if (options_.rank != 0) {
      return false;
    }
    checkStore(segment);
    return missingRanks(segment).empty();
  };
  const WaitContext context{.deadline = meeting_.deadline(), .subject = [&] {
                              const std::vector<int> missing = missingRanks(segment);
                              return missing.empty()
                                         ? str(meeting_.inWords({0}), " to open group '",
                                               options_.group, "', which all have joined")
                                         : str(meeting_.inWords(missing), " to join group '",
                                               options_.group, "'");
                            }};
  if (!waitUntil(ready, context, on)) {
    failLate(segment);
  }
  if (options_.rank == 0) {
    // Before the others go on: their next group may use the same key.
    meeting_.close();
    segment.header().cores = static_cast<std::uint32_t>(sharedCores(segment));
    // Release: who sees that the group is formed also sees how many cores it has.
    formed.store(1, std::memory_order_release);
    futexWakeAll(formed);
  }
}

/// Who has not come in time is to blame; when all have, rank 0, which has not gone on since.
void Formation::failLate(Segment& segment) {
  const std::vector<int> missing = missingRanks(segment);
  const std::string late = missing.empty() ? str(meeting_.inWords({0}), " has not opened it")
                                           : str("not ", meeting_.inWords(missing));
  fail(segment, {.reason = Reason::TIMEOUT,
                 .culprits = missing.empty() ? std::vector{0} : missing,
                 .reporter = options_.rank,
                 .text = str("group '", options_.group, "' was not formed in ",
                             formatDuration(options_.timeout), ": ",
                             static_cast<std::size_t>(options_.size) - missing.size(), " of ",
                             options_.size, " ranks have come, ", late)});
}

/// One number for all: algorithms are chosen by it, and must be the same everywhere.
int Formation::sharedCores(const Segment& segment) const {
  CpuShare all = segment.block(0).cpus;
  for (int rank = 1; rank < options_.size; ++rank) {
    all.join(segment.block(rank).cpus);
  }
  return all.count();
}

/// Whose process this rank looks at: rank 0 at all, all at rank 0, and everybody at the next one,
/// for one that rank 0 cannot see. If all looked at all, many ranks would do nothing else.
bool Formation::watches(int rank) const noexcept {
  return options_.rank == 0 || rank == 0 || rank == options_.rank + 1;
}

/// Between joining and holding its life word a rank is known by its process only.
bool Formation::hasDied(int rank, const RankBlock& block) const {
  const Identity& identity = block.identity;
  const auto state = static_cast<RankState>(identity.state.load(std::memory_order_acquire));
  if (state != RankState::JOINING) {
    return block.life.ownerDied();
  }
  if (!watches(rank)) {
    return false;
  }
  ProcessMark process = meeting_.here();
  process.pid = identity.pid;
  process.startTicks = identity.startTicks;
  process.pidNamespace = identity.pidNamespace;
  return lifeOf(process, meeting_.here()) == Life::GONE;
}

/// What ends the formation, if anything does: somebody else did, or a member has died.
std::optional<AbortCause> Formation::findTrouble(Segment& segment) {
  if (auto cause = segment.cause()) {
    return cause;
  }
  const bool look = nextLook_.expired();
  nextLook_ = look ? Deadline::after(kProcessLook) : nextLook_;
  for (int rank = 0; rank < options_.size; ++rank) {
    const bool left = segment.block(rank).identity.state.load(std::memory_order_acquire) ==
                      static_cast<std::uint32_t>(RankState::LEFT);
    if (left || hasDied(rank, segment.block(rank)) ||
        (look && watches(rank) && segment.isDumpingCore(rank))) {
      return AbortCause{.reason = left ? Reason::PEER_LEFT : Reason::PEER_DEAD,
                        .culprits = {rank},
                        .reporter = options_.rank,
                        .text = str(meeting_.inWords({rank}), " (process ",
                                    segment.block(rank).identity.pid, left ? ") left" : ") died",
                                    " while group '", options_.group, "' was formed")};
    }
  }
  return std::nullopt;
}

/// The others find rank 0 in the store: without one nobody else will come. And who cannot join says
/// so there.
void Formation::checkStore(Segment& segment) {
  if (!nextStoreLook_.expired()) {
    return;
  }
  std::optional<Decline> decline;
  try {
    decline = meeting_.takeDecline(root_, kStoreLook, [&](int rank) {
      return segment.block(rank).identity.state.load(std::memory_order_acquire) !=
             static_cast<std::uint32_t>(RankState::EMPTY);
    });
  } catch (const DistError& error) {
    if (error.reason() == Reason::STORE_LOST) {
      static_cast<void>(segment.header().abort.publish({.reason = Reason::STORE_LOST,
                                                        .culprits = {},
                                                        .reporter = options_.rank,
                                                        .text = error.facts().what}));
      futexWakeAll(segment.header().formed);
      throw;
    }
  }
  if (decline) {
    const bool isRank = decline->rank < static_cast<std::uint32_t>(options_.size);
    fail(segment,
         {.reason = decline->reason,
          .culprits = isRank ? std::vector{static_cast<int>(decline->rank)} : std::vector<int>(),
          .reporter = options_.rank,
          .text = printable(decline->text)});
  }
  nextStoreLook_ = Deadline::after(kStoreLook);
}

/// Those who are not live yet.
std::vector<int> Formation::missingRanks(const Segment& segment) const {
  std::vector<int> missing;
  for (int rank = 0; rank < options_.size; ++rank) {
    const auto state =
        static_cast<RankState>(segment.block(rank).identity.state.load(std::memory_order_acquire));
    if (state == RankState::EMPTY || state == RankState::JOINING) {
      missing.push_back(rank);
    }
  }
  return missing;
}

}  // namespace unisono::shm

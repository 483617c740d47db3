#include "transport/shm/peer_wait.hpp"

#include <algorithm>
#include <utility>

#include "base/str.hpp"
#include "base/wait.hpp"
#include "life/blame.hpp"

namespace unisono::shm {
namespace {

constexpr int kSlicesPerLookAtAll = 5;
// After so long a peer may be stopped, or dumping core: /proc knows.
constexpr Milliseconds kProcessLook(50);

RankState stateOf(const RankBlock& block) noexcept {
  return static_cast<RankState>(block.identity.state.load(std::memory_order_acquire));
}

}  // namespace

/// This rank's door: a sleep on it ends when a peer rings, or after a few milliseconds.
class PeerWait::Sleeper final : public Waitable {
 public:
  Sleeper(PeerWait& owner, int peer)
      : owner_(owner), peer_(peer), door_(owner.segment_.block(owner.segment_.rank()).door) {}

  void sleep(Milliseconds most) override {
    turn_ += 1;
    owner_.checkPeers(peer_, turn_ % kSlicesPerLookAtAll == 0);
    if (nextLook_.expired()) {
      owner_.checkProcess(peer_);
      nextLook_ = Deadline::after(kProcessLook);
    }
    door_.sleep(most);
  }

 private:
  PeerWait& owner_;
  const int peer_;
  DoorSleep door_;
  int turn_ = 0;
  Deadline nextLook_ = Deadline::after(kProcessLook);
};

PeerWait::PeerWait(Segment& segment, int cores, std::vector<int> globalRanks, Describe describe)
    : segment_(segment),
      policy_(segment.size(), cores),
      globalRanks_(std::move(globalRanks)),
      describe_(describe) {}

void PeerWait::startClock() {
  if (!operation_.deadline) {
    operation_.start = systemClock().now();
    operation_.deadline = Deadline::after(operation_.timeout);
  }
}

bool PeerWait::sleepBefore(int peer, const Deadline& deadline, Look ready) {
  startClock();
  const WaitContext context{.deadline = deadline, .subject = [&] {
                              return str(operation_.name, " of group '", segment_.group(),
                                         "': ", whoIsMissing());
                            }};
  Sleeper sleeper(*this, peer);
  return waitUntil(ready, context, sleeper);
}

void PeerWait::sleepUntil(int peer, Look ready) {
  startClock();
  if (!sleepBefore(peer, *operation_.deadline, ready)) {
    const std::vector<int> late = laggards();
    const AbortCause cause =
        fail({.reason = Reason::TIMEOUT,
              .culprits = late.empty() ? std::vector{peer} : late,
              .reporter = segment_.rank(),
              .seq = operation_.seq,
              .text = str(operation_.name, " timed out: Timed out waiting ",
                          operation_.timeout.count(), "ms. ", whoIsMissing())});
    throwCauseHere(cause);
  }
}

void PeerWait::checkPeers(int peer, bool all) {
  checkFailed();
  checkMismatch(peer);
  checkDead(peer);
  for (int other = 0; all && other < segment_.size(); ++other) {
    checkDead(other);
  }
}

/// A rank that has finished this operation may go: all it had to give is there.
void PeerWait::checkDead(int peer) {
  const RankBlock& block = segment_.block(peer);
  const bool died = block.life.ownerDied();
  const bool left = stateOf(block) == RankState::LEFT;
  if (!died && !left) [[likely]] {
    return;
  }
  if (reached(block.done.load(std::memory_order_acquire), positionOf(operation_.seq + 1, 0))) {
    return;
  }
  const std::string who = str(nameOf(peer), " (process ", block.identity.pid, ") ");
  throwCauseHere(
      fail({.reason = left ? Reason::PEER_LEFT : Reason::PEER_DEAD,
            .culprits = {peer},
            .reporter = segment_.rank(),
            .seq = operation_.seq,
            .text = left ? str(who, "has left the group, but is needed for ", operation_.name)
                         : str(who, "has died during ", operation_.name)}));
}

void PeerWait::checkProcess(int peer) {
  if (!segment_.isDumpingCore(peer)) {
    return;
  }
  throwCauseHere(
      fail({.reason = Reason::PEER_DEAD,
            .culprits = {peer},
            .reporter = segment_.rank(),
            .seq = operation_.seq,
            .text = str(nameOf(peer), " (process ", segment_.block(peer).identity.pid,
                        ") has crashed during ", operation_.name, " and is dumping core")}));
}

void PeerWait::checkMismatch(int peer) {
  const Post& post = segment_.block(peer).posts[operation_.seq % kPosts];
  if (post.seq.load(std::memory_order_acquire) == operation_.seq && post.call != operation_.call) {
    throwMismatch(peer);
  }
}

/// The oldest operation that both have called, but not alike; the current one if there is none.
std::uint64_t PeerWait::firstMismatch(int peer) const {
  for (std::uint64_t seq = operation_.seq - std::min(operation_.seq, kPosts - 1);
       seq < operation_.seq; ++seq) {
    const Post& mine = segment_.block(segment_.rank()).posts[seq % kPosts];
    const Post& theirs = segment_.block(peer).posts[seq % kPosts];
    if (seq > 0 && theirs.seq.load(std::memory_order_acquire) == seq && theirs.call != mine.call) {
      return seq;
    }
  }
  return operation_.seq;
}

/// Those who call something else than most of the ranks that have come to operation `seq`; all of
/// them when there is no such majority.
std::vector<int> PeerWait::oddCallers(std::uint64_t seq) const {
  std::vector<std::pair<int, std::uint32_t>> calls;
  for (int rank = 0; rank < segment_.size(); ++rank) {
    const Post& post = segment_.block(rank).posts[seq % kPosts];
    if (post.seq.load(std::memory_order_acquire) == seq) {
      calls.emplace_back(rank, post.call);
    }
  }
  const auto isUsual = [&](std::uint32_t call) {
    const auto alike = std::count_if(calls.begin(), calls.end(),
                                     [&](const auto& other) { return other.second == call; });
    return 2 * static_cast<std::size_t>(alike) > calls.size();
  };
  std::vector<int> odd;
  for (const auto& [rank, call] : calls) {
    if (!isUsual(call)) {
      odd.push_back(rank);
    }
  }
  return odd;
}

void PeerWait::throwMismatch(int peer) {
  const int me = segment_.rank();
  const std::uint64_t seq = firstMismatch(peer);
  const Post& mine = segment_.block(me).posts[seq % kPosts];
  const Post& theirs = segment_.block(peer).posts[seq % kPosts];
  const std::string here = describe_(mine);
  const std::string there = describe_(theirs);
  const bool sameWords = here == there && mine.algorithm != theirs.algorithm;
  const auto tell = [&](int rank, const std::string& call) {
    return str(nameOf(rank), " calls ", call);
  };
  throwCauseHere(fail({.reason = Reason::MISMATCH,
                       .culprits = oddCallers(seq),
                       .reporter = me,
                       .seq = seq,
                       .text = str("the ranks do not call the same: ", tell(me, here), ", ",
                                   tell(peer, there), sameWords ? ", by another algorithm" : "")}));
}

std::string PeerWait::nameOf(int rank) const {
  return str("rank ", inWorld({rank}, globalRanks_).front());
}

std::uint64_t PeerWait::lastCall(int rank) const noexcept {
  std::uint64_t last = 0;
  for (const Post& post : segment_.block(rank).posts) {
    last = std::max(last, post.seq.load(std::memory_order_acquire));
  }
  return last;
}

std::vector<int> PeerWait::laggards() const {
  std::vector<int> late;
  for (int peer = 0; peer < segment_.size(); ++peer) {
    const bool called = lastCall(peer) >= operation_.seq;
    if (peer != segment_.rank() && (!called || segment_.isStopped(peer))) {
      late.push_back(peer);
    }
  }
  return late;
}

std::string PeerWait::whoIsMissing() const {
  std::vector<std::string> late;
  for (const int peer : laggards()) {
    late.push_back(str(nameOf(peer), " (", segment_.describeProcess(peer),
                       ", last called operation ", lastCall(peer), ")"));
  }
  return late.empty() ? "all ranks have called it, some are slow"
                      : str("Waiting for ", unisono::join(late, ", "));
}

void PeerWait::throwFailed() {
  throwCauseHere(segment_.cause().value_or(AbortCause{}));
}

void PeerWait::throwCauseHere(const AbortCause& cause) {
  const std::vector<int> culprits = culpritsNow(segment_, cause);
  ErrorFacts facts{.op = std::string(operation_.name),
                   .seq = static_cast<std::int64_t>(operation_.seq),
                   .group = segment_.group(),
                   .rank = segment_.rank(),
                   .world = segment_.size()};
  if (!culprits.empty()) {
    facts.pid = segment_.block(culprits.front()).identity.pid;
  }
  if (operation_.deadline) {
    facts.elapsed = elapsedSince(operation_.start);
  }
  throwCause(cause, std::move(facts), inWorld(culprits, globalRanks_));
}

}  // namespace unisono::shm

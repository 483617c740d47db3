// What a rank finds out about others while the group forms: nobody waits for one that is gone.
#include <algorithm>

#include "base/str.hpp"
#include "transport/mesh/mesh.hpp"

namespace unisono::mesh {
namespace {

// Between two questions to one rank; in a large group, where all ask rank 0, more.
constexpr Milliseconds kAskEvery(1000);
constexpr Milliseconds kPerRank(2);
constexpr Milliseconds kShortestSilence(1000);

}  // namespace

class Mesh::Forming {
 public:
  explicit Forming(Mesh& mesh) : mesh_(mesh), known_(static_cast<std::size_t>(mesh.size())) {
    mesh_.roster_.resize(known_.size());
  }

  /// Why rank `peer` will not be in the group, if so.
  std::optional<AbortCause> whyNot(int peer, const Member& member) {
    const auto at = static_cast<std::size_t>(peer);
    mesh_.roster_[at] = member;
    const auto process = decodeMark(member.process);
    const Life life = process ? lifeOf(*process, mesh_.here_) : Life::UNSEEN;
    if (life == Life::GONE || (life == Life::ALIVE && unisono::isDumpingCore(process->pid))) {
      return mesh_.gone(peer, Reason::PEER_DEAD, "has died while the group was formed");
    }
    Known& known = known_[at];
    if (member.addresses.empty() || !known.askAt.expired()) {  // where it listens is not known yet
      return std::nullopt;
    }
    const auto cause = ask(peer, known, life);
    known.askAt = Deadline::after(std::max(kAskEvery, mesh_.size() * kPerRank));
    return cause;
  }

 private:
  struct Known {
    Deadline askAt = Deadline::at(TimePoint::min());
    std::optional<TimePoint> silentSince = {};
  };

  /// Of its harbour, which answers from before the card was left.
  std::optional<AbortCause> ask(int peer, Known& known, Life life) {
    using How = Reached::How;
    const TimePoint asked = systemClock().now();
    const Reached reached = mesh_.tryToReach(peer, Purpose::ASK, deadline_);
    if (reached.how == How::UNREACHED) {
      known.silentSince = known.silentSince.value_or(asked);
      const Milliseconds netDead = mesh_.streamOptions_.netDead;
      const bool isGone = netDead.count() > 0 &&
                          elapsedSince(*known.silentSince) >= std::max(netDead, kShortestSilence);
      return isGone ? std::optional(mesh_.causeOf(peer, reached)) : std::nullopt;
    }
    known.silentSince.reset();
    if (reached.how == How::REFUSED && life != Life::ALIVE) {
      return mesh_.gone(peer, Reason::PEER_DEAD, "has died while the group was formed");
    }
    if (!reached.report || reached.report->state == Report::State::LIVE) {
      return std::nullopt;  // what else is wrong, the first operation tells
    }
    return reached.report->cause
               ? *reached.report->cause
               : mesh_.gone(peer, Reason::PEER_LEFT, "has left while the group was formed");
  }

  Mesh& mesh_;
  const Deadline deadline_ = Deadline::after(mesh_.options_.timeout - mesh_.options_.spent);
  std::vector<Known> known_;  // by rank
};

Roster Mesh::meetOthers(const Member& self, const Hearsay& hearsay) {
  Forming forming(*this);
  return meet(
      options_, self, [&](int rank, const Member& member) { return forming.whyNot(rank, member); },
      hearsay);
}

}  // namespace unisono::mesh

#include "transport/shm/mail.hpp"

#include "transport/shm/door.hpp"

namespace unisono::shm {
namespace {

/// Sleeps at the door at which peers ring.
class AtDoor final : public Waitable {
 public:
  explicit AtDoor(Door& door) noexcept : door_(door) {}
  void sleep(Milliseconds most) override { door_.sleep(most); }

 private:
  DoorSleep door_;
};

}  // namespace

AbortCause PipeCarrier::whyNotOpen(int /*from*/, int to) {
  return segment_.silenceOfOwner(kFirstInbox + static_cast<std::uint32_t>(to));
}

void PipeCarrier::ring(int peer) noexcept {
  shm::ring(segment_.block(peer).mailDoor);
}

std::unique_ptr<Waitable> PipeCarrier::sleeper() {
  return std::make_unique<AtDoor>(segment_.block(rank()).mailDoor);
}

Carrier::PeerState PipeCarrier::stateOf(int peer) {
  const RankBlock& block = segment_.block(peer);
  if (block.life.ownerDied()) {
    return PeerState::DEAD;
  }
  // Acquire: what it has sent before.
  return block.identity.state.load(std::memory_order_acquire) ==
                 static_cast<std::uint32_t>(RankState::LEFT)
             ? PeerState::LEFT
             : PeerState::HERE;
}

}  // namespace unisono::shm

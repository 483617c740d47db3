// Carrier: what brings the messages of a Mail to other ranks, and knows how those ranks are.
//
// Mail puts frames into pipes and takes them out of others. Where ranks share memory a pipe is in
// it, and the other end is the peer's; otherwise it is this process's own, and carry() brings its
// frames to the peer, and those of the peer here.
//
// Thread safety: everything under the lock of its Mail, but for wake() and record(), which
// any thread may use, and for what sleeper() gives, which sleeps without the lock.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/wait.hpp"
#include "life/abort_record.hpp"
#include "transport/shm/pipe.hpp"

namespace unisono {

/// What keeping a short message takes beside its bytes, about.
inline constexpr std::size_t kKeepingOne = 128;

/// Long messages that are under way, where they are in the memory of those who send and receive
/// them.
class Cargo {
 public:
  /// What is left of a message, and the number that its sender has given it.
  struct Piece {
    std::uint64_t number = 0;
    std::span<const std::byte> rest = {};
  };

  virtual ~Cargo() = default;
  /// Of the message that goes to rank `peer` now, if there is one: the same until all of it is
  /// sent.
  virtual std::optional<Piece> toSend(int peer) = 0;
  /// So many bytes of it have been.
  virtual void sent(int peer, std::size_t bytes) = 0;
  /// For the rest of the message to which rank `peer` has given that number; nothing when it was
  /// not asked for.
  virtual std::optional<std::span<std::byte>> roomFor(int peer, std::uint64_t number) = 0;
  /// So many bytes of it have come there.
  virtual void received(int peer, std::uint64_t number, std::size_t bytes) = 0;
};

class Carrier {
 public:
  enum class PeerState : std::uint8_t { HERE, LEFT, DEAD };

  virtual ~Carrier() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual const std::string& group() const noexcept = 0;

  /// The pipe from one rank to another, one of which is this. Not open when the peer does not give
  /// it; whyNotOpen() says why. Throws DistError.
  virtual shm::Pipe pipe(int from, int to, Deadline deadline) = 0;
  virtual AbortCause whyNotOpen(int from, int to) = 0;

  /// Whether pipes end here, and need carry().
  virtual bool carries() const noexcept { return false; }
  /// Moves what can be moved without waiting, of `cargo` too, which goes through no pipe; whether
  /// anything was. What it learns of the end of peers ends the group.
  virtual bool carry(Cargo& /*cargo*/) { return false; }
  /// Hears what peers have to say of themselves, without waiting: the group may have failed.
  virtual void listen() {}
  /// Whether ring() was called since it last did.
  virtual bool wasRung() const noexcept { return false; }
  /// Whether something that was put into a pipe has not left this process.
  virtual bool owes() const noexcept { return false; }

  /// Whether long messages of rank `peer` can be read where they are.
  virtual bool isReadable(int /*peer*/) noexcept { return false; }
  virtual bool read(int /*peer*/, std::uint64_t /*address*/,
                    std::span<std::byte> /*into*/) noexcept {
    return false;
  }
  /// From now on what others have read here counts for nothing, and nobody wants what comes.
  virtual void withdraw() noexcept {}

  /// Wakes rank `peer`: its pipe has changed.
  virtual void ring(int peer) noexcept = 0;
  /// Wakes who sleeps here.
  virtual void wake() noexcept = 0;
  /// Sleeps until something has changed. For one thread at a time, which calls beforeSleep() (with
  /// the lock) before every sleep.
  virtual std::unique_ptr<Waitable> sleeper() = 0;
  virtual void beforeSleep() {}

  virtual PeerState stateOf(int peer) = 0;
  /// A closer look at a rank that has been waited for some time; whether it has crashed and is
  /// dumping core. May end the group.
  virtual bool hasCrashed(int peer) = 0;
  /// A message of whomever has been waited for some time. May end the group.
  virtual void expectAnybody() {}
  /// "process 77, state T stopped".
  virtual std::string describe(int peer) const = 0;
  virtual int processOf(int peer) const = 0;
  /// Whether its process can be seen to be stopped.
  virtual bool isStopped(int /*peer*/) const { return false; }

  /// Why the group has failed, if it has.
  virtual const AbortRecord& record() const noexcept = 0;
  virtual std::optional<AbortCause> cause() const = 0;
  /// Ends the group: tells all ranks `cause`, unless another one was told before. Returns the one
  /// that counts.
  virtual AbortCause fail(AbortCause cause) noexcept = 0;
  /// Whom to blame for `cause`, as far as is known now.
  virtual std::vector<int> culpritsNow(const AbortCause& cause) const = 0;
};

}  // namespace unisono

// Socket: a connected, non-blocking stream whose calls wait no longer than their deadline.
//
// Thread safety: one thread may send while another receives; shutdown() may be called from any
// thread and wakes both. Destruction and moving need all calls to have returned.
//
// In a forked child every call fails with EBADF.
//
// Errors: calls do not throw (except what the interrupt hook throws); an IoResult says whether
// the deadline passed, the peer closed, or the system refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/wait.hpp"
#include "net/address.hpp"

namespace unisono {

/// How a transfer ended.
enum class IoOutcome : std::uint8_t {
  DONE,       // everything was moved
  TIMED_OUT,  // the deadline passed first
  CLOSED,     // the peer closed in good order, or this side shut down
  FAILED,     // `error` says why
};

struct [[nodiscard]] IoResult {
  IoOutcome outcome = IoOutcome::TIMED_OUT;
  int error = 0;          // errno of FAILED
  std::size_t bytes = 0;  // moved, whatever the outcome

  bool isDone() const noexcept { return outcome == IoOutcome::DONE; }
  /// "timed out", "closed by the peer", "Connection reset by peer (ECONNRESET)".
  std::string text() const;
};

/// What every TCP connection of ours is set to; read once per object, applied to many sockets.
struct StreamOptions {
  Milliseconds netDead;  // a peer that does not acknowledge for so long is gone; 0 = kernel's

  /// From UNISONO_NET_DEAD_MS. Throws UsageError (CONFIG) when that is out of range.
  static StreamOptions fromEnvironment();
};

/// Sets no delay and keep-alive, which finds a dead host while nothing is sent to it; isPeerGone()
/// finds it otherwise. What the socket does not know is left out.
void applyStreamOptions(int fd, const StreamOptions& options) noexcept;
inline void applyStreamOptions(int fd) {
  applyStreamOptions(fd, StreamOptions::fromEnvironment());
}

/// True when the peer's host has acknowledged nothing for `netDead` although this one asked, again
/// and again. A peer that only does not read is not gone: its kernel answers. Never when it is 0.
bool isPeerGone(int fd, Milliseconds netDead) noexcept;

class Socket {
 public:
  Socket() = default;
  /// Takes over a connected stream socket and makes it non-blocking and close-on-exec. Who waits
  /// in a call that gets no further learns within a second that isPeerGone(): FAILED, ETIMEDOUT.
  explicit Socket(UniqueFd fd, Milliseconds netDead = Milliseconds(0)) noexcept;

  /// Sends all of `bytes`.
  IoResult sendAll(std::string_view bytes, const WaitContext& wait);
  IoResult sendAll(std::string_view bytes, Deadline deadline);

  /// Receives exactly `size` bytes.
  IoResult recvExact(char* data, std::size_t size, const WaitContext& wait);
  IoResult recvExact(char* data, std::size_t size, Deadline deadline);

  /// Receives at least one byte and at most `size`.
  IoResult recvSome(char* data, std::size_t size, const WaitContext& wait);
  IoResult recvSome(char* data, std::size_t size, Deadline deadline);

  /// Ends both directions and wakes whoever waits in a call; the descriptor stays open.
  void shutdown() noexcept;

  /// Between the kernels of both hosts, as this one measures it: a peer that is slow to answer does
  /// not matter. 0 when unknown.
  Milliseconds roundTrip() const noexcept;

  SocketAddress localAddress() const noexcept { return SocketAddress::localOf(fd()); }
  SocketAddress peerAddress() const noexcept { return SocketAddress::peerOf(fd()); }

  /// -1 when there is none, and in a forked child, where the number may be somebody else's.
  int fd() const noexcept { return madeIn_.inChild() ? -1 : fd_.get(); }
  bool valid() const noexcept { return fd_.valid(); }
  /// Gives the descriptor away.
  UniqueFd release() noexcept { return std::move(fd_); }

 private:
  UniqueFd fd_;
  Milliseconds netDead_{0};
  ForkGuard madeIn_;
};

}  // namespace unisono

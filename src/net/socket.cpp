#include "net/socket.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "unisono/base/error.hpp"

#include "base/env.hpp"
#include "base/str.hpp"

namespace unisono {
namespace {

UNISONO_KNOB(std::int64_t, kNetDead, "UNISONO_NET_DEAD_MS", "10000",
             "milliseconds without acknowledgement after which a peer host counts as gone, at "
             "least 1000; 0 = as the kernel thinks");

constexpr Milliseconds kShortestNetDead(1000);
constexpr Milliseconds kLongestNetDead(std::chrono::hours(24));
constexpr int kKeepAliveProbes = 3;

// So often a segment must have gone unanswered: one may be lost on the way.
constexpr int kUnanswered = 2;

// Of the looks that waitUntil() takes, one every 50 ms, so many pass between two questions whether
// the peer is gone.
constexpr int kLooksPerQuestion = 20;

void setOption(int fd, int level, int name, int value) noexcept {
  static_cast<void>(::setsockopt(fd, level, name, &value, sizeof value));
}

/// Moves bytes with `move(offset)` until `enough` are moved or it is over. Tries before it
/// sleeps, so that a deadline of now still moves what can be moved at once.
template <typename Move, typename Gone>
IoResult transfer(std::size_t enough, FdWaitable on, const WaitContext& wait, Move move,
                  Gone gone) {
  IoResult result;
  int looks = 0;
  const auto step = [&] {
    while (result.bytes < enough) {
      const ssize_t moved = move(result.bytes);
      if (moved > 0) {
        result.bytes += static_cast<std::size_t>(moved);
      } else if (moved == 0) {
        result.outcome = IoOutcome::CLOSED;
        return true;
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (++looks % kLooksPerQuestion != 0 || !gone()) {
          return false;
        }
        result.outcome = IoOutcome::FAILED;
        result.error = ETIMEDOUT;
        return true;
      } else if (errno != EINTR) {
        result.outcome = IoOutcome::FAILED;
        result.error = errno;
        return true;
      }
    }
    result.outcome = IoOutcome::DONE;
    return true;
  };
  static_cast<void>(waitUntil(step, wait, on));  // TIMED_OUT until a step says otherwise
  return result;
}

WaitContext quietly(Deadline deadline) {
  return {.deadline = deadline, .subject = {}};
}

}  // namespace

std::string IoResult::text() const {
  switch (outcome) {
    case IoOutcome::DONE:
      return "done";
    case IoOutcome::TIMED_OUT:
      return "timed out";
    case IoOutcome::CLOSED:
      return "closed by the peer";
    case IoOutcome::FAILED:
      break;
  }
  return errnoDetail(error);
}

StreamOptions StreamOptions::fromEnvironment() {
  const Milliseconds value(kNetDead.value());
  if (value.count() != 0 && (value < kShortestNetDead || value > kLongestNetDead)) {
    throw UsageError({.reason = Reason::CONFIG,
                      .what = str("the environment variable ", kNetDead.name, " is ", value.count(),
                                  ", which is neither 0 nor from ", kShortestNetDead.count(),
                                  " to ", kLongestNetDead.count()),
                      .hint = str("unset it (default ", kNetDead.fallback, ")")});
  }
  return {.netDead = value};
}

void applyStreamOptions(int fd, const StreamOptions& options) noexcept {
  setOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  setOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  if (options.netDead.count() == 0) {
    return;
  }
  // No TCP_USER_TIMEOUT: it also ends the connection to a living peer that does not read, however
  // punctually its kernel answers.
  const int period = static_cast<int>(std::max<std::int64_t>(1, options.netDead.count() / 5000));
  setOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, period);
  setOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, period);
  setOption(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
}

bool isPeerGone(int fd, Milliseconds netDead) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (netDead.count() == 0 || ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
    return false;
  }
  // Data is sent again until it is acknowledged; a peer without room for more is asked for room.
  const bool unanswered = (info.tcpi_unacked > 0 && info.tcpi_retransmits >= kUnanswered) ||
                          info.tcpi_probes >= kUnanswered;
  return unanswered && Milliseconds(info.tcpi_last_ack_recv) >= netDead;
}

Socket::Socket(UniqueFd fd, Milliseconds netDead) noexcept : fd_(std::move(fd)), netDead_(netDead) {
  static_cast<void>(::fcntl(fd_.get(), F_SETFL, ::fcntl(fd_.get(), F_GETFL) | O_NONBLOCK));
  static_cast<void>(::fcntl(fd_.get(), F_SETFD, FD_CLOEXEC));
}

IoResult Socket::sendAll(std::string_view bytes, const WaitContext& wait) {
  const auto move = [&](std::size_t done) {
    return ::send(fd(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
  };
  return transfer(bytes.size(), FdWaitable(fd(), POLLOUT), wait, move,
                  [this] { return isPeerGone(fd(), netDead_); });
}

IoResult Socket::recvExact(char* data, std::size_t size, const WaitContext& wait) {
  const auto move = [&](std::size_t done) { return ::recv(fd(), data + done, size - done, 0); };
  return transfer(size, FdWaitable(fd(), POLLIN), wait, move,
                  [this] { return isPeerGone(fd(), netDead_); });
}

IoResult Socket::recvSome(char* data, std::size_t size, const WaitContext& wait) {
  const std::size_t enough = std::min<std::size_t>(size, 1);
  const auto move = [&](std::size_t) { return ::recv(fd(), data, size, 0); };
  return transfer(enough, FdWaitable(fd(), POLLIN), wait, move,
                  [this] { return isPeerGone(fd(), netDead_); });
}

IoResult Socket::sendAll(std::string_view bytes, Deadline deadline) {
  return sendAll(bytes, quietly(deadline));
}

IoResult Socket::recvExact(char* data, std::size_t size, Deadline deadline) {
  return recvExact(data, size, quietly(deadline));
}

IoResult Socket::recvSome(char* data, std::size_t size, Deadline deadline) {
  return recvSome(data, size, quietly(deadline));
}

void Socket::shutdown() noexcept {
  static_cast<void>(::shutdown(fd(), SHUT_RDWR));
}

Milliseconds Socket::roundTrip() const noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
    return Milliseconds(0);
  }
  return std::chrono::ceil<Milliseconds>(std::chrono::microseconds(info.tcpi_rtt));
}

}  // namespace unisono

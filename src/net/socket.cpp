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

void setOption(int fd, int level, int name, int value) noexcept {
  static_cast<void>(::setsockopt(fd, level, name, &value, sizeof value));
}

/// Moves bytes with `move(offset)` until `enough` are moved or it is over. Tries before it
/// sleeps, so that a deadline of now still moves what can be moved at once.
template <typename Move>
IoResult transfer(std::size_t enough, FdWaitable on, const WaitContext& wait, Move move) {
  IoResult result;
  const auto step = [&] {
    while (result.bytes < enough) {
      const ssize_t moved = move(result.bytes);
      if (moved > 0) {
        result.bytes += static_cast<std::size_t>(moved);
      } else if (moved == 0) {
        result.outcome = IoOutcome::CLOSED;
        return true;
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return false;
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
  // Keep-alive finds a dead host while nothing is sent, the user timeout while something is.
  const int period = static_cast<int>(std::max<std::int64_t>(1, options.netDead.count() / 5000));
  setOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, period);
  setOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, period);
  setOption(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
  setOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(options.netDead.count()));
}

Socket::Socket(UniqueFd fd) noexcept : fd_(std::move(fd)) {
  static_cast<void>(::fcntl(fd_.get(), F_SETFL, ::fcntl(fd_.get(), F_GETFL) | O_NONBLOCK));
  static_cast<void>(::fcntl(fd_.get(), F_SETFD, FD_CLOEXEC));
}

IoResult Socket::sendAll(std::string_view bytes, const WaitContext& wait) {
  return transfer(bytes.size(), FdWaitable(fd(), POLLOUT), wait, [&](std::size_t done) {
    return ::send(fd(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
  });
}

IoResult Socket::recvExact(char* data, std::size_t size, const WaitContext& wait) {
  return transfer(size, FdWaitable(fd(), POLLIN), wait,
                  [&](std::size_t done) { return ::recv(fd(), data + done, size - done, 0); });
}

IoResult Socket::recvSome(char* data, std::size_t size, const WaitContext& wait) {
  const std::size_t enough = std::min<std::size_t>(size, 1);
  return transfer(enough, FdWaitable(fd(), POLLIN), wait,
                  [&](std::size_t) { return ::recv(fd(), data, size, 0); });
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

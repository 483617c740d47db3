// What the tests of the net room share.
#pragma once

#include <array>
#include <fstream>
#include <functional>
#include <linux/filter.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/wait.hpp"
#include "net/accept.hpp"
#include "net/connect.hpp"
#include "net/listener.hpp"
#include "net/socket.hpp"

namespace unisono::test {

/// A deadline that only a broken test reaches.
inline Deadline soon() {
  return Deadline::after(std::chrono::seconds(20));
}

/// Waits until `condition` holds; false when it does not within 20 s.
inline bool eventually(const std::function<bool()>& condition) {
  TimerWaitable timer(Milliseconds(1));
  return waitUntil(condition, {.deadline = soon(), .subject = {}}, timer);
}

/// Whether thread `tid` of this process sleeps in the kernel.
inline bool isAsleep(int tid) {
  std::ifstream stat("/proc/self/task/" + std::to_string(tid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const std::size_t name = text.rfind(')');
  return name != std::string::npos && text.compare(name, 3, ") S") == 0;
}

/// Two connected stream sockets.
struct SocketPair {
  Socket near;
  Socket far;
};

inline SocketPair socketPair() {
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    throw std::runtime_error("socketpair");
  }
  return {Socket(UniqueFd(fds[0])), Socket(UniqueFd(fds[1]))};
}

/// Lets nothing that is sent to `fd` get through, not even to the kernel's TCP: to the peer, this
/// host has died.
inline void playDead(int fd) {
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{.len = 1, .filter = &drop};
  if (::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0) {
    throw std::runtime_error("SO_ATTACH_FILTER");
  }
}

inline Listener listenOn(const std::string& host) {
  return Listener::open(host, 0, "auto", soon());
}

/// A port of 127.0.0.1 where nobody listens: bound, so that nobody else gets it meanwhile.
class ClosedPort {
 public:
  ClosedPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const SocketAddress any = SocketAddress::loopback(AF_INET, 0);
    if (::bind(fd_.get(), any.raw(), any.size()) != 0) {
      throw std::runtime_error("bind");
    }
  }
  std::uint16_t number() const { return SocketAddress::localOf(fd_.get()).port(); }
  /// Gives the socket away, for a server to take over.
  int release() { return fd_.release(); }

 private:
  UniqueFd fd_;
};

/// A listener that does not answer: its queue is full, so the kernel drops what comes.
class SilentPort {
 public:
  explicit SilentPort(const std::string& host)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const SocketAddress any = SocketAddress::parse(host, 0).value();
    if (::bind(fd_.get(), any.raw(), any.size()) != 0 || ::listen(fd_.get(), 0) != 0) {
      throw std::runtime_error("listen");
    }
    ConnectHistory history({host, address().port()}, Milliseconds(0));
    for (;;) {
      ConnectRound round = tryConnectOnce(history, Deadline::after(Milliseconds(50)));
      if (!round.socket.valid()) {
        return;
      }
      queued_.push_back(std::move(round.socket));
    }
  }
  SocketAddress address() const { return SocketAddress::localOf(fd_.get()); }

 private:
  UniqueFd fd_;
  std::vector<Socket> queued_;
};

}  // namespace unisono::test

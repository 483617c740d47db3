#include "support/fault_proxy.hpp"

#include <algorithm>
#include <array>
#include <poll.h>
#include <sys/socket.h>

#include "base/wait.hpp"
#include "net/connect.hpp"
#include "net/net_support.hpp"

namespace unisono::test {
namespace {

/// Its end is told as a reset, when it is closed.
void endByReset(const Socket& socket) {
  const linger none{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
}

}  // namespace

/// One direction of one connection.
class FaultProxy::Pipe {
 public:
  Pipe(Socket& from, Socket& to, const Toxic& toxic) : from_(from), to_(to), toxic_(toxic) {}

  int fd() const { return hasEnded_ ? -1 : from_.fd(); }
  bool hasEnded() const { return hasEnded_; }

  /// Passes on what is there; false when the whole connection is over.
  bool pump(std::string& buffer) {
    const IoResult got = from_.recvSome(buffer.data(), buffer.size(), soon());
    if (!got.isDone()) {
      return end();
    }
    if (toxic_.corruptAt >= passed_ && toxic_.corruptAt - passed_ < got.bytes) {
      buffer[toxic_.corruptAt - passed_] ^= static_cast<char>(toxic_.mask);
    }
    for (std::string_view rest(buffer.data(), got.bytes); !rest.empty();) {
      if (passed_ == toxic_.after) {
        return interfere();
      }
      const std::size_t size = std::min({rest.size(), toxic_.slice, toxic_.after - passed_});
      if (toxic_.latency.count() > 0) {
        pauseFor(toxic_.latency, {.deadline = soon(), .subject = {}});
      }
      if (!to_.sendAll(rest.substr(0, size), soon()).isDone()) {
        return false;
      }
      passed_ += size;
      rest.remove_prefix(size);
    }
    return true;
  }

 private:
  bool interfere() {
    switch (toxic_.then) {
      case Then::SWALLOW:
        return true;
      case Then::HALF_CLOSE:
        return end();
      case Then::RESET:
        endByReset(from_);
        endByReset(to_);
        return false;
      case Then::CLOSE:
        break;
    }
    return false;
  }
  /// Of this direction.
  bool end() {
    hasEnded_ = true;
    ::shutdown(to_.fd(), SHUT_WR);
    return true;
  }

  Socket& from_;
  Socket& to_;
  const Toxic toxic_;
  std::size_t passed_ = 0;
  bool hasEnded_ = false;
};

FaultProxy::FaultProxy(std::uint16_t serverPort, const Toxics& toxics)
    : serverPort_(serverPort),
      toxics_(toxics),
      server_([this](Socket& client, int number) { serve(client, number); }) {}

void FaultProxy::serve(Socket& client, int number) const {
  Socket server = connectTo("127.0.0.1", serverPort_, soon(), Milliseconds(20'000));
  applyStreamOptions(client.fd());
  const Toxics toxics = number < toxics_.from ? Toxics{} : toxics_;
  std::array<Pipe, 2> pipes = {Pipe(client, server, toxics.toServer),
                               Pipe(server, client, toxics.toClient)};
  std::string buffer(1 << 16, '\0');
  while (!pipes[0].hasEnded() || !pipes[1].hasEnded()) {
    std::array<pollfd, 2> entries{};
    for (std::size_t i = 0; i < pipes.size(); ++i) {
      entries[i] = {.fd = pipes[i].fd(), .events = POLLIN, .revents = 0};
    }
    ::poll(entries.data(), entries.size(), -1);
    for (std::size_t i = 0; i < pipes.size(); ++i) {
      if (entries[i].revents != 0 && !pipes[i].pump(buffer)) {
        return;
      }
    }
  }
}

}  // namespace unisono::test

// RawClient: a blocking TCP client that sends and receives plain bytes.
//
// Every call gives up after 20 s, which only a broken server makes it wait.
#pragma once

#include <cerrno>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/fd.hpp"
#include "net/address.hpp"
#include "store/core_harness.hpp"

namespace unisono::tcp::test {

class RawClient {
 public:
  RawClient() = default;
  /// Connects. `bufferBytes`, when not 0, is how little the kernel is to hold in either direction.
  explicit RawClient(const SocketAddress& server, int bufferBytes = 0)
      : fd_(::socket(server.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval most{.tv_sec = 20, .tv_usec = 0};
    setOption(SOL_SOCKET, SO_RCVTIMEO, most);
    setOption(SOL_SOCKET, SO_SNDTIMEO, most);
    setOption(IPPROTO_TCP, TCP_NODELAY, 1);
    if (bufferBytes != 0) {
      setOption(SOL_SOCKET, SO_RCVBUF, bufferBytes);
      setOption(SOL_SOCKET, SO_SNDBUF, bufferBytes);
    }
    connected_ = ::connect(fd_.get(), server.raw(), server.size()) == 0;
  }

  bool connected() const { return connected_; }
  int fd() const { return fd_.get(); }

  /// False when the server has closed the connection or does not take the bytes.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count < 0 && errno != EINTR) {
        return false;
      }
      bytes.remove_prefix(count > 0 ? static_cast<std::size_t>(count) : 0);
    }
    return true;
  }
  bool send(const RequestWriter& request) { return send(request.bytes()); }
  bool hello() { return send(kHello); }

  /// Sends what the kernel takes without blocking, and returns how much that was.
  std::size_t sendSome(std::string_view bytes) {
    const ssize_t count =
        ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return count > 0 ? static_cast<std::size_t>(count) : 0;
  }

  /// The next `size` bytes; fewer when the connection ends or nothing comes.
  std::string receive(std::size_t size) {
    std::string bytes(size, '\0');
    std::size_t got = 0;
    while (got < size) {
      const ssize_t count = ::recv(fd_.get(), bytes.data() + got, size - got, 0);
      if (count == 0 || (count < 0 && errno != EINTR)) {
        break;
      }
      got += count > 0 ? static_cast<std::size_t>(count) : 0;
    }
    bytes.resize(got);
    return bytes;
  }

  /// Sends a request and returns the `size` bytes of its reply.
  std::string ask(const RequestWriter& request, std::size_t size) {
    return send(request) ? receive(size) : "";
  }
  /// Whether the server answers a PING.
  bool served() { return ask(req(Query::PING).u32(0x01020304), 4) == "\x04\x03\x02\x01"; }

  /// Takes what is left, and says whether the server then closed the connection.
  bool ended() {
    char bytes[4096];
    ssize_t count = 0;
    do {
      count = ::recv(fd_.get(), bytes, sizeof bytes, 0);
    } while (count > 0 || (count < 0 && errno == EINTR));
    return count == 0 || errno == ECONNRESET;
  }

  /// Ends the connection with a reset.
  void reset() {
    setOption(SOL_SOCKET, SO_LINGER, linger{.l_onoff = 1, .l_linger = 0});
    fd_.reset();
  }
  void close() { fd_.reset(); }

 private:
  template <typename T>
  void setOption(int level, int name, const T& value) {
    EXPECT_EQ(::setsockopt(fd_.get(), level, name, &value, sizeof value), 0);
  }

  UniqueFd fd_;
  bool connected_ = false;
};

}  // namespace unisono::tcp::test

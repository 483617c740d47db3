// SocketAddress and HostPort: where a socket is bound or connected, and what a user writes for it.
//
// Everything here is numeric: an address is never turned into a name by asking a resolver, since
// a slow one would stall whoever only wanted to print a line.
//
// Thread safety: values; distinct objects may be used by distinct threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>

namespace unisono {

class SocketAddress {
 public:
  /// No address; family() is AF_UNSPEC.
  SocketAddress() noexcept = default;
  SocketAddress(const sockaddr* address, socklen_t size) noexcept;

  /// The address `literal` stands for ("10.0.0.1", "::1", "[::1]", "fe80::1%eth0"), or nothing
  /// when it is not numeric. Never asks a resolver.
  static std::optional<SocketAddress> parse(std::string_view literal, std::uint16_t port);
  static SocketAddress loopback(int family, std::uint16_t port) noexcept;
  static SocketAddress wildcard(int family, std::uint16_t port) noexcept;

  /// Of the near or far end of a socket; family() is AF_UNSPEC when there is none.
  static SocketAddress localOf(int fd) noexcept;
  static SocketAddress peerOf(int fd) noexcept;

  int family() const noexcept { return storage_.ss_family; }
  bool isInternet() const noexcept { return family() == AF_INET || family() == AF_INET6; }
  std::uint16_t port() const noexcept;
  SocketAddress withPort(std::uint16_t port) const noexcept;

  /// 127/8, ::1 and 127/8 written as an IPv6 address.
  bool isLoopback() const noexcept;
  /// 169.254/16 and fe80::/10: means something on one network only.
  bool isLinkLocal() const noexcept;
  /// 0.0.0.0 and ::.
  bool isWildcard() const noexcept;

  /// "127.0.0.1:29500", "[fe80::1%eth0]:29500".
  std::string text() const;
  /// As text(), with loopback as "localhost:29500" (IPv4) or "[localhost]:29500" (IPv6).
  std::string textForRepr() const;
  /// The address alone: "127.0.0.1", "fe80::1%eth0".
  std::string hostText() const;

  const sockaddr* raw() const noexcept { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const noexcept { return size_; }

  friend bool operator==(const SocketAddress& a, const SocketAddress& b) noexcept;

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

/// What a user writes for a peer: a name or an address, and a port.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;

  /// "localhost:29500", "[::1]:29500".
  std::string text() const;
};

/// Parses "host:port" and "[address]:port". Throws UsageError naming what is wrong with `text`.
HostPort parseHostPort(std::string_view text);

}  // namespace unisono

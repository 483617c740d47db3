#include "net/address.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <charconv>
#include <cstring>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include "base/check.hpp"
#include "base/str.hpp"

namespace unisono {
namespace {

/// The storage seen as an IPv4 or IPv6 address; memcpy, since the types may not alias.
template <typename Address>
Address as(const sockaddr* raw) noexcept {
  Address address;
  std::memcpy(&address, raw, sizeof address);
  return address;
}

bool isLoopback4(std::uint32_t networkOrder) noexcept {
  return ntohl(networkOrder) >> 24U == 127;
}

/// The IPv4 address inside ::ffff:a.b.c.d, in network order.
std::uint32_t mappedIpv4(const in6_addr& address) noexcept {
  std::uint32_t inner;
  std::memcpy(&inner, &address.s6_addr[12], sizeof inner);
  return inner;
}

std::string scopeText(std::uint32_t scope) {
  if (scope == 0) {
    return "";
  }
  std::array<char, IF_NAMESIZE> name{};
  return ::if_indextoname(scope, name.data()) != nullptr ? str("%", name.data()) : str("%", scope);
}

template <typename GetName>
SocketAddress endOf(int fd, GetName getName) noexcept {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (getName(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return {};
  }
  return {reinterpret_cast<const sockaddr*>(&storage), size};
}

[[noreturn]] void refuseHostPort(std::string_view text, std::string_view why) {
  throw UsageError({.reason = Reason::USAGE,
                    .what = str("'", text, "' is not host:port: ", why),
                    .hint = "write it as localhost:29500, 10.0.0.1:29500 or [::1]:29500"});
}

}  // namespace

SocketAddress::SocketAddress(const sockaddr* address, socklen_t size) noexcept
    : size_(std::min<socklen_t>(size, sizeof storage_)) {
  std::memcpy(&storage_, address, size_);
}

std::optional<SocketAddress> SocketAddress::parse(std::string_view literal, std::uint16_t port) {
  if (literal.size() > 2 && literal.front() == '[' && literal.back() == ']') {
    literal = literal.substr(1, literal.size() - 2);
  }
  if (literal.empty() || literal.find('\0') != std::string_view::npos) {
    return std::nullopt;
  }
  // getaddrinfo rather than inet_pton, for the scope ids; with AI_NUMERICHOST it asks nobody.
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(std::string(literal).c_str(), nullptr, &hints, &found) != 0) {
    return std::nullopt;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  return SocketAddress(found->ai_addr, found->ai_addrlen).withPort(port);
}

SocketAddress SocketAddress::loopback(int family, std::uint16_t port) noexcept {
  SocketAddress address = wildcard(family, port);
  if (family == AF_INET6) {
    auto raw = as<sockaddr_in6>(address.raw());
    raw.sin6_addr = in6addr_loopback;
    std::memcpy(&address.storage_, &raw, sizeof raw);
  } else {
    auto raw = as<sockaddr_in>(address.raw());
    raw.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::memcpy(&address.storage_, &raw, sizeof raw);
  }
  return address;
}

SocketAddress SocketAddress::wildcard(int family, std::uint16_t port) noexcept {
  SocketAddress address;
  address.storage_.ss_family = static_cast<sa_family_t>(family);
  address.size_ = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return address.withPort(port);
}

SocketAddress SocketAddress::localOf(int fd) noexcept {
  return endOf(fd, [](int s, sockaddr* a, socklen_t* n) { return ::getsockname(s, a, n); });
}

SocketAddress SocketAddress::peerOf(int fd) noexcept {
  return endOf(fd, [](int s, sockaddr* a, socklen_t* n) { return ::getpeername(s, a, n); });
}

std::uint16_t SocketAddress::port() const noexcept {
  // The port is at the same place in both.
  return isInternet() ? ntohs(as<sockaddr_in>(raw()).sin_port) : std::uint16_t{0};
}

SocketAddress SocketAddress::withPort(std::uint16_t port) const noexcept {
  SocketAddress changed = *this;
  if (isInternet()) {
    auto head = as<sockaddr_in>(raw());
    head.sin_port = htons(port);
    std::memcpy(&changed.storage_, &head, sizeof head);
  }
  return changed;
}

bool SocketAddress::isLoopback() const noexcept {
  if (family() == AF_INET) {
    return isLoopback4(as<sockaddr_in>(raw()).sin_addr.s_addr);
  }
  if (family() != AF_INET6) {
    return false;
  }
  const in6_addr address = as<sockaddr_in6>(raw()).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&address) ||
         (IN6_IS_ADDR_V4MAPPED(&address) && isLoopback4(mappedIpv4(address)));
}

bool SocketAddress::isLinkLocal() const noexcept {
  if (family() == AF_INET) {
    return ntohl(as<sockaddr_in>(raw()).sin_addr.s_addr) >> 16U == 0xA9FE;
  }
  const in6_addr address = as<sockaddr_in6>(raw()).sin6_addr;
  return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address);
}

bool SocketAddress::isWildcard() const noexcept {
  if (family() == AF_INET) {
    return as<sockaddr_in>(raw()).sin_addr.s_addr == htonl(INADDR_ANY);
  }
  const in6_addr address = as<sockaddr_in6>(raw()).sin6_addr;
  return family() == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&address);
}

std::string SocketAddress::hostText() const {
  std::array<char, INET6_ADDRSTRLEN> digits{};
  if (family() == AF_INET) {
    const in_addr address = as<sockaddr_in>(raw()).sin_addr;
    return ::inet_ntop(AF_INET, &address, digits.data(), digits.size());
  }
  if (family() == AF_INET6) {
    const auto address = as<sockaddr_in6>(raw());
    ::inet_ntop(AF_INET6, &address.sin6_addr, digits.data(), digits.size());
    return str(digits.data(), scopeText(address.sin6_scope_id));
  }
  return family() == AF_UNIX ? "unix socket" : "unknown address";
}

std::string SocketAddress::text() const {
  return isInternet() ? HostPort{hostText(), port()}.text() : hostText();
}

std::string SocketAddress::textForRepr() const {
  if (!isLoopback()) {
    return text();
  }
  return str(family() == AF_INET6 ? "[localhost]:" : "localhost:", port());
}

bool operator==(const SocketAddress& a, const SocketAddress& b) noexcept {
  if (a.family() != b.family()) {
    return false;
  }
  if (a.family() == AF_INET) {
    return a.port() == b.port() &&
           as<sockaddr_in>(a.raw()).sin_addr.s_addr == as<sockaddr_in>(b.raw()).sin_addr.s_addr;
  }
  if (a.family() == AF_INET6) {
    const auto x = as<sockaddr_in6>(a.raw());
    const auto y = as<sockaddr_in6>(b.raw());
    return a.port() == b.port() && x.sin6_scope_id == y.sin6_scope_id &&
           IN6_ARE_ADDR_EQUAL(&x.sin6_addr, &y.sin6_addr);
  }
  return a.size_ == b.size_ && std::memcmp(&a.storage_, &b.storage_, a.size_) == 0;
}

std::string HostPort::text() const {
  const bool bare = host.find(':') != std::string::npos && !host.starts_with('[');
  return bare ? str("[", host, "]:", port) : str(host, ":", port);
}

HostPort parseHostPort(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    refuseHostPort(text, "the port is missing");
  }
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) {
      refuseHostPort(text, "a bracket is not closed");
    }
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    refuseHostPort(text, "an IPv6 address needs brackets");
  }
  if (host.find_first_of("[]") != std::string_view::npos) {
    refuseHostPort(text, "brackets stand only around the host");
  }
  if (host.empty()) {
    refuseHostPort(text, "the host is missing");
  }
  std::uint16_t port = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, port);
  if (error != std::errc() || stop != end) {
    refuseHostPort(text, "the port is not a number from 0 to 65535");
  }
  return {std::string(host), port};
}

}  // namespace unisono

// Who has a socket of this host, as /proc shows it.
#pragma once

#include <string>

#include "net/address.hpp"

namespace unisono {

/// "in use by pid 12 (python3)" for the process whose socket stands in the way of binding
/// `address`; empty when /proc does not show it. Never throws.
std::string portOwner(const SocketAddress& address) noexcept;

/// Whether the other end of `fd`, a connection within this host, is of neither this user nor root,
/// or has been closed. False where there is no /proc/net/tcp to tell. Never throws.
bool isOfAnotherUser(int fd) noexcept;

}  // namespace unisono

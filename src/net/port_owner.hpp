// portOwner: who has the port that we want.
#pragma once

#include <string>

#include "net/address.hpp"

namespace unisono {

/// "in use by pid 12 (python3)" for the process whose socket stands in the way of binding
/// `address`; empty when /proc does not show it. Never throws.
std::string portOwner(const SocketAddress& address) noexcept;

}  // namespace unisono

// resolve: from what a user writes for a host to the addresses it stands for.
//
// Addresses written as numbers, and localhost, never ask a resolver. Other names do, on a thread
// of their own: the system's resolver cannot be given a deadline, so a hanging one is left behind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "net/address.hpp"

namespace unisono {

/// The addresses of `host`, without repetitions, in the resolver's order, with `port`. Failures:
/// USAGE when `host` can never be resolved (empty, or a malformed address), CONFIG when the
/// resolver does not know it now, TIMEOUT when it has not answered by the deadline, RESOURCE when
/// it could not be asked.
Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port,
                                           Deadline deadline);

namespace detail {
/// Asks for the addresses of `host`; returns "" or why there are none.
using ResolverCall = std::string (*)(const std::string& host, std::vector<SocketAddress>& found);

/// As resolve(), with another resolver. For tests.
Result<std::vector<SocketAddress>> resolveWith(ResolverCall call, const std::string& host,
                                               std::uint16_t port, Deadline deadline);
}  // namespace detail

}  // namespace unisono

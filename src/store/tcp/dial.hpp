// dial: a connection to a store server that has shown it is one.
#pragma once

#include <memory>
#include <optional>

#include "base/random.hpp"
#include "net/address.hpp"
#include "net/secret.hpp"
#include "store/tcp/connection.hpp"

namespace unisono::tcp {

/// The pauses between attempts: ranks start before the server does, and a job begins when the last
/// has found it (docs/adr/0006).
inline constexpr Backoff::Options kDialPauses{.initial = Milliseconds(2),
                                              .longest = Milliseconds(250)};

/// Connects, says hello and finds out what the server can do; retries all of it until the call's
/// timeout has passed (0: one attempt). Throws DistNetworkError (PEER_UNREACHABLE, CONFIG) with
/// every address tried and why it was no good. With a `key` both prove to each other that they know
/// it; DistAuthError (AUTH_FAILED) when the server cannot, also when it does not know how.
std::unique_ptr<Connection> dial(const HostPort& target, const std::optional<Key>& key,
                                 const Call& call);

/// A further connection to a server that has been there: when nobody listens any more it is lost,
/// DistNetworkError (STORE_LOST); when it does not answer, DistStoreError (TIMEOUT).
std::unique_ptr<Connection> redial(const HostPort& target, const std::optional<Key>& key,
                                   const Call& call);

}  // namespace unisono::tcp

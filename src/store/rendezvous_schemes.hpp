// The built-in schemes of rendezvous(), and what they share.
#pragma once

#include <string>
#include <string_view>

#include "unisono/store/rendezvous.hpp"

namespace unisono {

RendezvousResult rendezvousEnv(const RendezvousUrl& url, const RendezvousOptions& options);
RendezvousResult rendezvousFile(const RendezvousUrl& url, const RendezvousOptions& options);
RendezvousResult rendezvousTcp(const RendezvousUrl& url, const RendezvousOptions& options);

/// UsageError: "Error initializing … using tcp:// rendezvous: `why`".
[[noreturn]] void refuseRendezvous(std::string_view scheme, std::string_view why,
                                   std::string_view remedy);

/// The rank and world size that `options` must hold by now: UsageError when one is missing, or
/// the rank is not one of that world.
struct Place {
  int rank;
  int worldSize;
};
Place placeIn(std::string_view scheme, const RendezvousOptions& options);

/// Where MASTER_ADDR and MASTER_PORT say that the store is; UsageError when they do not.
struct Master {
  std::string host;
  int port;
};
Master masterFromEnvironment();

/// `text` with its ASCII letters in lower case, as schemes are compared.
std::string lowered(std::string_view text);

/// `text` as a whole number; UsageError naming `what` it should have been.
int parseWhole(std::string_view what, std::string_view text);

}  // namespace unisono

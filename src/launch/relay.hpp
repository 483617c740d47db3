// Relay: where the ranks of a node reach the store of a job that has a secret.
//
// PyTorch's clients cannot prove that they know the secret. The launcher takes their connections on
// loopback, proves it in their place, and passes on what they say. Clients of ours prove it
// themselves: theirs are passed on as they are. Who belongs to another user is sent away.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.hpp"
#include "base/thread.hpp"
#include "net/address.hpp"
#include "net/secret.hpp"

namespace unisono::launch {

/// Thread safety: for one thread at a time; its own thread waits for nobody.
class Relay {
 public:
  /// Listens at `place`, which is on loopback; port 0: one that is free. Who connects before
  /// leadTo() waits. Throws DistNetworkError (RESOURCE, CONFIG) when it cannot listen.
  Relay(const HostPort& place, const Key& key, Deadline deadline);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  std::uint16_t port() const noexcept;

  /// Connects to the store at `store` from now on; connections to the one before are closed.
  void leadTo(const SocketAddress& store);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
  Thread thread_;  // last: it ends before what it runs goes
};

}  // namespace unisono::launch

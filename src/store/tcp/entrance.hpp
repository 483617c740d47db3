// Entrance: what a client says before anything else to a server that has a secret.
//
// Bytes in, bytes out, as in StoreCore; docs/wire/tcp_store.md has every one of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "net/handshake.hpp"

namespace unisono::tcp {

/// The key of this process for stores, made of the job's secret; nothing when there is none.
/// Throws UsageError (CONFIG) for a secret that cannot be used, as jobSecret() does.
std::optional<Key> storeKey();

class Entrance {
 public:
  explicit Entrance(const Key& key) : key_(key) {}

  /// Takes away from the front of `*bytes` what belongs to the handshake, and adds to `*out` what
  /// it is answered with. After a failure the connection is to be closed.
  Status take(std::string_view* bytes, std::string* out);

  /// Whether the client has been asked for a proof.
  bool challenged() const noexcept { return acceptor_.has_value(); }
  bool passed() const noexcept { return passed_; }

 private:
  bool collect(std::string_view* bytes, std::size_t size);

  const Key key_;
  std::string frame_;  // what has come of the one that is expected
  std::optional<HandshakeAcceptor> acceptor_;
  bool passed_ = false;
};

}  // namespace unisono::tcp

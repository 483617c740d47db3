// Passage: what a client and a store with a secret say to each other through a relay.
//
// Bytes in, bytes out: no I/O. A client that begins as PyTorch's do is spoken for: the relay proves
// to the store that it knows the secret, and lets the store prove it. All others speak for
// themselves.
//
// Thread safety: for one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "net/handshake.hpp"

namespace unisono::launch {

class Passage {
 public:
  enum class Side : std::uint8_t { NEAR, FAR };  // the client, the store

  static constexpr Side other(Side side) noexcept {
    return side == Side::NEAR ? Side::FAR : Side::NEAR;
  }

  explicit Passage(const Key& key) : key_(key) {}

  /// Whether bytes of `side` can be taken now: what came before has been passed on.
  bool wantsFrom(Side side) const noexcept;

  /// Takes what `side` has sent. After a failure both connections are to be closed.
  Status take(Side side, std::string_view bytes);

  /// No more comes from `side`.
  void end(Side side) noexcept { (side == Side::NEAR ? nearEnded_ : farEnded_) = true; }
  bool hasEnded(Side side) const noexcept { return side == Side::NEAR ? nearEnded_ : farEnded_; }

  /// What is to be sent to `side`; whoever sends some of it takes that away.
  std::string& pendingFor(Side side) noexcept { return side == Side::NEAR ? toNear_ : toFar_; }

  /// The store has closed the connection, and the client has got all that it said.
  bool isOver() const noexcept { return farEnded_ && toNear_.empty(); }

 private:
  enum class Stage : std::uint8_t { LISTENING, PROVING, AWAITING_WELCOME, OPEN };

  Status takeFromClient(std::string_view bytes);
  Status takeFromStore(std::string_view bytes);

  const Key key_;
  Stage stage_ = Stage::LISTENING;
  std::optional<HandshakeConnector> connector_;
  std::string held_;    // what the client has said, until the store lets it in
  std::string answer_;  // of the store to the proof, as far as it has come
  std::string toNear_;
  std::string toFar_;
  bool nearEnded_ = false;
  bool farEnded_ = false;
};

}  // namespace unisono::launch

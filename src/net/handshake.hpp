// Handshake: both ends of a connection prove that they know a key, and the one that connected says
// what for. No I/O: frames in, frames out.
//
//   connector                                        acceptor
//   hello, 57 bytes and a note    ──►
//                                 ◄──                challenge, 73 bytes: a code over all so far
//   proof, 32 bytes               ──►
//                                 ◄──                one byte 0: welcome
//
// Every code covers everything said before it and a number that the other end has just drawn: what
// was overheard is of no use later. Whoever fails to prove it is not told why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "net/secret.hpp"

namespace unisono {

/// 16 bytes by which the acceptor finds the key.
inline constexpr std::size_t kHandshakeIdSize = 16;
inline constexpr std::size_t kHelloSize = 57;  // without the note
inline constexpr std::size_t kChallengeSize = 73;
inline constexpr std::size_t kProofSize = 32;
inline constexpr char kWelcome = 0;
/// The first byte of a hello: no other protocol that meets ours begins with it.
inline constexpr char kHelloByte = static_cast<char>(0xA7);

/// The side that connects.
class HandshakeConnector {
 public:
  /// `id` has 16 bytes; `note` is whatever the two protocols have agreed on, of a fixed length.
  HandshakeConnector(const Key& key, std::string_view id, std::string_view note);

  const std::string& hello() const noexcept { return hello_; }
  /// The proof; nothing when `challenge` comes from somebody who does not know the key.
  std::optional<std::string> prove(std::string_view challenge) const;

 private:
  const Key key_;
  const std::string hello_;
};

/// What a hello says.
struct Hello {
  std::string_view id;
  std::string_view note;

  /// Nothing when `frame` is no hello of this version. The views are into `frame`.
  static std::optional<Hello> parse(std::string_view frame) noexcept;
};

/// The side that is connected to, once it has found the key for a hello.
class HandshakeAcceptor {
 public:
  HandshakeAcceptor(const Key& key, std::string hello);

  const std::string& challenge() const noexcept { return challenge_; }
  bool accepts(std::string_view proof) const;

 private:
  const Key key_;
  const std::string hello_;
  const std::string challenge_;
};

}  // namespace unisono

// The bytes that ranks of different hosts exchange: docs/wire/tcp_link.md has each of them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "life/abort_record.hpp"
#include "transport/communicator.hpp"

namespace unisono::mesh {

inline constexpr std::uint32_t kVersion = 1;

/// What a connection is for.
enum class Purpose : std::uint32_t {
  LINK = 1,   // data from the one who connects to the other
  WATCH = 2,  // nothing: its end tells of the end of the other
  ASK = 3,    // how the other is; it is answered with a Report, and closed
  MAIL = 4,   // messages from the one who connects to the other
};

/// The note of a hello (net/handshake.hpp).
struct Note {
  static constexpr std::size_t kSize = 16;

  std::uint32_t from = 0;  // ranks in the group
  std::uint32_t to = 0;
  Purpose purpose = Purpose::LINK;

  std::string encode() const;
  static std::optional<Note> decode(std::string_view bytes) noexcept;
};

/// What comes before every piece of data on a link.
struct Frame {
  static constexpr std::size_t kSize = 48;
  using Bytes = std::array<std::byte, kSize>;
  enum class Kind : std::uint8_t {
    DATA = 1,
    ABORT = 2,  // the group has failed; the cause follows
    BYE = 3,    // the sender has left the group
  };

  Kind kind = Kind::DATA;
  std::uint64_t seq = 0;    // of the operation
  std::uint64_t bytes = 0;  // that follow
  Call call = {};           // of the operation; without name and timeout

  void encode(Bytes& into) const noexcept;
  /// Nothing when it is no frame.
  static std::optional<Frame> decode(const Bytes& bytes) noexcept;
};

/// What comes before everything on a link of messages, but for the frames ABORT and BYE.
struct MailHead {
  enum class Kind : std::uint8_t {
    MESSAGE = 16,  // a whole message
    OFFER = 17,    // a long one is there
    TAKE = 18,     // back: send the one with this number
    PART = 19,     // some bytes of the one with this number
    CREDIT = 20,   // so much of the other's whole messages is not kept any more
  };
  Kind kind = Kind::MESSAGE;
  std::int32_t tag = 0;      // of MESSAGE and OFFER
  std::uint64_t number = 0;  // of a long message, as its sender counts
  std::uint64_t bytes = 0;   // that follow
  std::uint64_t length = 0;  // of the message; of CREDIT: bytes, since the first

  void encode(Frame::Bytes& into) const noexcept;
  /// Nothing when it is no such head.
  static std::optional<MailHead> decode(const Frame::Bytes& bytes) noexcept;
};

/// A cause with more words than this is cut.
inline constexpr std::size_t kLongestCause = 4096;
std::string encodeCause(const AbortCause& cause);
std::optional<AbortCause> decodeCause(std::string_view bytes);

/// Instead of the welcome of a handshake: that rank is not there any more. Its last Report follows.
inline constexpr char kGone = 1;

/// How a rank is.
struct Report {
  enum class State : std::uint32_t {
    LIVE = 1,
    FAILED = 2,   // the group has; `cause` says why
    LEFT = 3,     // this rank has
    UNKNOWN = 4,  // there is no such group in that process
  };
  State state = State::LIVE;
  std::uint64_t seq = 0;  // of the last operation that it has called
  std::optional<AbortCause> cause = {};
  std::vector<Frame> calls = {};  // the last ones, by their numbers; no data follows them

  std::string encode() const;
  static std::optional<Report> decode(std::string_view bytes);
};

}  // namespace unisono::mesh

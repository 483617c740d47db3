// Local sockets: messages between processes of one host, which may carry a descriptor.
//
// Names are abstract: they are no files, and vanish with the process. Only processes of the same
// user are let in.
//
// Thread safety: one thread at a time per object.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/status.hpp"

namespace unisono {

/// A message as it arrived.
struct LocalMessage {
  std::string bytes;
  UniqueFd fd;  // not valid when none came along
};

/// The longest message that is sent or received.
inline constexpr std::size_t kLongestLocalMessage = 4096;

/// Whether the system does not let this process have local sockets.
bool areLocalSocketsDenied() noexcept;

/// One end of a connection; messages keep their bounds.
class LocalSocket {
 public:
  LocalSocket() = default;
  explicit LocalSocket(UniqueFd fd) noexcept : fd_(std::move(fd)) {}

  /// Connects to the listener called `name`. Fails with ECONNREFUSED when there is none, and when
  /// it belongs to another user.
  static Result<LocalSocket> connect(std::string_view name, Deadline deadline);

  /// Sends `bytes` and, unless it is -1, a copy of the descriptor `fd`.
  Status send(std::string_view bytes, int fd, Deadline deadline);

  /// The next message; fails when the other end is closed, the deadline passes, or what arrives
  /// is no message of ours.
  Result<LocalMessage> receive(Deadline deadline);

  /// The process at the other end, as it was when the connection was made.
  pid_t peerPid() const noexcept;
  int fd() const noexcept { return fd_.get(); }
  bool valid() const noexcept { return fd_.valid(); }
  /// Its descriptor, for another use.
  UniqueFd release() noexcept { return std::move(fd_); }

 private:
  UniqueFd fd_;
};

/// Where others connect to.
class LocalListener {
 public:
  /// Listens under a new random name. Throws DistError (RESOURCE).
  LocalListener();

  const std::string& name() const noexcept { return name_; }
  int fd() const noexcept { return fd_.get(); }

  /// The next one who has connected; nothing when there is none, or it was of another user.
  std::optional<LocalSocket> accept();
  /// Whether the last accept() had no descriptor or memory for somebody who is still waiting.
  bool isStarved() const noexcept { return starved_; }

 private:
  std::string name_;
  UniqueFd fd_;
  bool starved_ = false;
};

}  // namespace unisono

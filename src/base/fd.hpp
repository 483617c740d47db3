// UniqueFd: a descriptor that closes itself, and is closed in forked children.
// isForLater: what the errno of a call on one that does not block tells.
#pragma once

#include <cerrno>
#include <utility>

#include "base/fork.hpp"

namespace unisono {

class UniqueFd {
 public:
  UniqueFd() = default;
  /// Takes ownership of `fd` (which should be close-on-exec); -1 for none.
  explicit UniqueFd(int fd) noexcept : fd_(fd) { rememberFd(fd); }
  ~UniqueFd() { reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)), madeIn_(other.madeIn_) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
      madeIn_ = other.madeIn_;
    }
    return *this;
  }

  int get() const noexcept { return fd_; }
  bool valid() const noexcept { return fd_ >= 0; }

  /// Closes. In a forked child the descriptor is gone already, and its number may be
  /// somebody else's by now: nothing is closed.
  void reset() noexcept;

  /// Gives the descriptor away; -1 in a forked child, where it is gone.
  int release() noexcept;

 private:
  int fd_ = -1;
  ForkGuard madeIn_;
};

/// After a call that failed: it found nothing to do yet, or was interrupted. Nothing is wrong.
inline bool isForLater() noexcept {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace unisono

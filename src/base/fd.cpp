#include "base/fd.hpp"

#include <unistd.h>
#include <utility>

namespace unisono {

void UniqueFd::reset() noexcept {
  if (fd_ >= 0 && !madeIn_.inChild()) {
    forgetFd(fd_);
    ::close(fd_);
  }
  fd_ = -1;
}

int UniqueFd::release() noexcept {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0 || madeIn_.inChild()) {
    return -1;  // the number may be another descriptor of ours by now: it stays remembered
  }
  forgetFd(fd);
  return fd;
}

}  // namespace unisono

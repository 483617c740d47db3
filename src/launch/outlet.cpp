#include "launch/outlet.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <poll.h>
#include <unistd.h>

#include "base/fd.hpp"

namespace unisono::launch {
namespace {

constexpr int kWritesPerTurn = 16;
constexpr std::size_t kKeptWritten = 64 * 1024;  // moving the rest to the front costs, too

bool isWritable(int fd) {
  pollfd entry{.fd = fd, .events = POLLOUT, .revents = 0};
  return ::poll(&entry, 1, 0) == 1;
}

}  // namespace

Outlet::Outlet(Reactor& reactor, int fd) : reactor_(reactor), fd_(fd) {
  reactor_.role.assertHeld();
  const Status watched = reactor_.watch(fd_, {}, *this);
  watched_ = watched.isOk();
  error_ = watched_ ? 0 : EBADF;
}

Outlet::~Outlet() {
  reactor_.role.assertHeld();
  if (watched_) {
    reactor_.unwatch(fd_);
  }
}

void Outlet::push(std::string_view text) {
  reactor_.role.assertHeld();
  if (error_ == 0 && !text.empty()) {
    text_ += text;
    reactor_.change(fd_, {.read = false, .write = true});
  }
}

void Outlet::drop() noexcept {
  text_.clear();
  written_ = 0;
}

void Outlet::onReady(bool /*readable*/, bool writable) noexcept {
  reactor_.role.assertHeld();
  for (int write = 0; writable && pending() > 0 && write < kWritesPerTurn; ++write) {
    // A pipe that is ready takes this much without blocking.
    const std::size_t size = std::min<std::size_t>(pending(), PIPE_BUF);
    const ssize_t count = ::write(fd_, text_.data() + written_, size);
    if (count < 0 && !isForLater()) {
      error_ = errno;
      drop();
      break;
    }
    written_ += count > 0 ? static_cast<std::size_t>(count) : 0;
    writable = isWritable(fd_);
  }
  if (pending() == 0) {
    drop();
    reactor_.change(fd_, {});
  } else if (written_ >= kKeptWritten && written_ >= text_.size() / 2) {
    text_.erase(0, written_);
    written_ = 0;
  }
}

}  // namespace unisono::launch

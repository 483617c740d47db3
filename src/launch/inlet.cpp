#include "launch/inlet.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace unisono::launch {
namespace {

constexpr std::size_t kReadAtOnce = 4096;

}  // namespace

Inlet::Inlet(Reactor& reactor, int fd) : reactor_(reactor), fd_(fd) {
  reactor_.role.assertHeld();
  watched_ = reactor_.watch(fd_, {}, *this).isOk();
  ended_ = !watched_;  // it is closed
}

Inlet::~Inlet() {
  reactor_.role.assertHeld();
  clear();
  if (watched_) {
    reactor_.unwatch(fd_);
  }
}

void Inlet::add(UniqueFd pipe) {
  reactor_.role.assertHeld();
  ::fcntl(pipe.get(), F_SETFL, O_NONBLOCK);  // our end alone: the other stays as it is
  Branch& branch = branches_.emplace_back(*this, std::move(pipe));
  if (!reactor_.watch(branch.pipe.get(), {}, branch).isOk()) {
    branches_.pop_back();
  }
  update();
}

void Inlet::clear() noexcept {
  reactor_.role.assertHeld();
  for (const Branch& branch : branches_) {
    reactor_.unwatch(branch.pipe.get());
  }
  branches_.clear();
}

/// Reads on when everybody has everything, and closes the pipes after the last of it.
void Inlet::update() noexcept {
  reactor_.role.assertHeld();
  const bool isDone = std::all_of(branches_.begin(), branches_.end(),
                                  [](const Branch& branch) { return branch.pending.empty(); });
  if (ended_ && isDone) {
    clear();
  }
  if (watched_) {
    reactor_.change(fd_, {.read = !ended_ && isDone && !branches_.empty(), .write = false});
  }
}

void Inlet::onReady(bool readable, bool /*writable*/) noexcept {
  if (!readable) {
    return;
  }
  std::array<char, kReadAtOnce> buffer;
  const ssize_t count = ::read(fd_, buffer.data(), buffer.size());
  if (count < 0 && isForLater()) {
    return;
  }
  ended_ = count <= 0;
  for (auto next = branches_.begin(); !ended_ && next != branches_.end();) {
    Branch& branch = *next++;  // which may go
    branch.pending.assign(buffer.data(), static_cast<std::size_t>(count));
    flush(branch);
  }
  update();
}

void Inlet::flush(Branch& branch) noexcept {
  reactor_.role.assertHeld();
  std::string& pending = branch.pending;
  const int fd = branch.pipe.get();
  const ssize_t count = pending.empty() ? 0 : ::write(fd, pending.data(), pending.size());
  if (count < 0 && errno != EAGAIN && errno != EINTR) {  // its reader has gone
    reactor_.unwatch(fd);
    branches_.remove_if([&](const Branch& each) { return &each == &branch; });
    update();
    return;
  }
  pending.erase(0, count > 0 ? static_cast<std::size_t>(count) : 0);
  reactor_.change(fd, {.read = false, .write = !pending.empty()});
  if (pending.empty()) {
    update();
  }
}

}  // namespace unisono::launch

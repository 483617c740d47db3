#include "launch/channel.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "unisono/base/error.hpp"

#include "base/log.hpp"
#include "base/str.hpp"
#include "launch/folder.hpp"

namespace unisono::launch {
namespace {

constexpr std::size_t kPipeHolds = 64 * 1024;
constexpr int kLastReads = 32;  // somebody may still be writing

}  // namespace

Channel::Channel(Reactor& reactor, UniqueFd pipe, const std::string& file,
                 LineSplitter::OnLine onLine)
    : reactor_(reactor),
      pipe_(std::move(pipe)),
      file_(file.empty() ? UniqueFd() : makeLogFile(file)),
      onLine_(std::move(onLine)) {
  reactor_.role.assertHeld();
  ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);  // our end alone: the other stays as it is
  if (const Status watched = reactor_.watch(pipe_.get(), {.read = true}, *this); !watched.isOk()) {
    throw DistError({.reason = watched.reason(), .what = watched.text()});
  }
}

Channel::~Channel() {
  reactor_.role.assertHeld();
  if (isOpen()) {
    reactor_.unwatch(pipe_.get());
  }
}

void Channel::pause(bool paused) {
  reactor_.role.assertHeld();
  if (isOpen()) {
    reactor_.change(pipe_.get(), {.read = !paused, .write = false});
  }
}

void Channel::close() noexcept {
  for (int read = 0; isOpen() && read < kLastReads; ++read) {
    if (readOnce() == Got::NOTHING_NOW) {
      break;
    }
  }
  end();
}

void Channel::end() noexcept {
  reactor_.role.assertHeld();
  if (isOpen()) {
    splitter_.finish(onLine_);
    reactor_.unwatch(pipe_.get());
    pipe_.reset();
    file_.reset();
  }
}

Channel::Got Channel::readOnce() noexcept {
  std::array<char, kPipeHolds> buffer;
  const ssize_t count = ::read(pipe_.get(), buffer.data(), buffer.size());
  if (count < 0 && isForLater()) {
    return Got::NOTHING_NOW;
  }
  if (count <= 0) {
    end();
    return Got::NOTHING_NOW;
  }
  const std::string_view bytes(buffer.data(), static_cast<std::size_t>(count));
  for (std::string_view left = bytes; file_.valid() && !left.empty();) {
    const ssize_t written = ::write(file_.get(), left.data(), left.size());
    if (written < 0 && errno != EINTR) {
      UNISONO_LOG(WARN, "launch", "a log file is incomplete from here on: ", errnoText(errno));
      file_.reset();
    }
    left.remove_prefix(written > 0 ? static_cast<std::size_t>(written) : 0);
  }
  splitter_.feed(bytes, onLine_);
  return Got::SOMETHING;
}

void Channel::onReady(bool readable, bool /*writable*/) noexcept {
  if (readable) {
    readOnce();
  }
}

}  // namespace unisono::launch

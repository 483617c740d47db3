#include "launch/signals.hpp"

#include <cerrno>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "unisono/base/error.hpp"

#include "base/str.hpp"

namespace unisono::launch {

Signals::Signals(std::span<const int> numbers) {
  ::signal(SIGCHLD, SIG_DFL);  // ignored by our parent, ours would end without a trace
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  for (const int number : numbers) {
    struct sigaction now {};
    ::sigaction(number, nullptr, &now);
    if (now.sa_handler != SIG_IGN) {
      sigaddset(&watched, number);
    }
  }
  ::pthread_sigmask(SIG_BLOCK, &watched, &before_);
  fd_ = UniqueFd(::signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd_.valid()) {
    const int error = errno;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    throw DistError({.reason = Reason::RESOURCE,
                     .what = str("cannot watch for signals: ", errnoDetail(error)),
                     .hint = "raise the limit on open files (ulimit -n)"});
  }
}

Signals::~Signals() {
  while (next()) {}
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> Signals::next() noexcept {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != sizeof info) {
    return std::nullopt;
  }
  return static_cast<int>(info.ssi_signo);
}

}  // namespace unisono::launch

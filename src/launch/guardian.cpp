#include "launch/guardian.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

#include "unisono/base/error.hpp"

#include "base/str.hpp"

namespace unisono::launch {
namespace {

constexpr std::size_t kMostGroups = 8192;  // the launcher starts fewer ranks than that
constexpr pid_t kFarewell = 0;             // told when the launcher ends in good order

[[noreturn]] void fail(int error) {
  throw DistError(
      {.reason = Reason::RESOURCE,
       .what = str("cannot start a process that watches over the ranks: ", errnoDetail(error)),
       .hint = "raise the limits on open files and processes (ulimit -n, ulimit -u)"});
}

/// Puts `group` into a free place, or takes it out when it is negative.
void note(std::array<pid_t, kMostGroups>& groups, pid_t group) {
  const pid_t wanted = group > 0 ? 0 : -group;
  for (pid_t& place : groups) {
    if (place == wanted) {
      place = group > 0 ? group : 0;
      return;
    }
  }
}

/// The guardian's life.
[[noreturn]] void guard(int pipe, const std::string& leftover) {
  ::setsid();  // Ctrl-C is not for it
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_NAME, "unisono-guard");
  ::dup2(pipe, 0);
  ::syscall(SYS_close_range, 1U, ~0U, 0U);  // who reads the launcher's output waits for its end
  static std::array<pid_t, kMostGroups> groups{};
  bool isKilled = true;
  pid_t group = 0;
  // Ends when the launcher has: there is nobody else to write.
  for (ssize_t count = 1; count != 0;) {
    count = ::read(0, &group, sizeof group);
    if (count == sizeof group && group == kFarewell) {
      isKilled = false;
    } else if (count == sizeof group) {
      note(groups, group);
    } else if (count < 0 && errno != EINTR) {
      break;
    }
  }
  for (const pid_t left : groups) {
    if (left > 0) {
      ::kill(-left, SIGKILL);
    }
  }
  if (isKilled) {  // else it does that itself
    std::error_code ignored;
    std::filesystem::remove_all(leftover, ignored);
  }
  ::_exit(0);
}

void tell(int pipe, pid_t number) noexcept {
  // It reads at once, and a pipe takes thousands of numbers: this never blocks. A guardian that
  // somebody has killed is missed by nobody.
  static_cast<void>(!::write(pipe, &number, sizeof number));
}

}  // namespace

Guardian::Guardian(const std::string& leftover) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    fail(errno);
  }
  pipe_ = UniqueFd(ends[1]);  // closed in the child
  const pid_t child = ::fork();
  if (child == 0) {
    guard(ends[0], leftover);
  }
  const int error = errno;
  ::close(ends[0]);
  if (child < 0) {
    fail(error);
  }
}

Guardian::~Guardian() {
  tell(pipe_.get(), kFarewell);
}

void Guardian::watch(pid_t group) noexcept {
  tell(pipe_.get(), group);
}

void Guardian::forget(pid_t group) noexcept {
  tell(pipe_.get(), -group);
}

}  // namespace unisono::launch

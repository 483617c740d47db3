#include "launch/worker.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unisono/base/error.hpp"

#include "base/str.hpp"

namespace unisono::launch {
namespace {

[[noreturn]] void fail(const char* doing, int error) {
  throw DistError({.reason = Reason::RESOURCE,
                   .what = str("cannot ", doing, ": ", errnoDetail(error)),
                   .hint = "start fewer ranks, or raise the limits (ulimit -n, ulimit -u)"});
}

/// The child's end of a pipe. Not a UniqueFd, since those are closed in children.
struct RawFd {
  int fd = -1;
  RawFd() = default;
  ~RawFd() {
    if (fd >= 0) {
      ::close(fd);
    }
  }
  RawFd(const RawFd&) = delete;
  RawFd& operator=(const RawFd&) = delete;
};

enum class Flow : std::uint8_t { TO_US, TO_THEM };

void makePipe(UniqueFd& ours, RawFd& theirs, Flow flow) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    fail("make a pipe for a rank", errno);
  }
  ours = UniqueFd(ends[flow == Flow::TO_US ? 0 : 1]);
  theirs.fd = ends[flow == Flow::TO_US ? 1 : 0];
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> list;
  for (const std::string& word : words) {
    list.push_back(const_cast<char*>(word.c_str()));  // NOLINT: exec does not change them
  }
  list.push_back(nullptr);
  return list;
}

/// All that the child needs, made before the fork: other threads may hold the allocator's lock.
struct ChildPart {
  char* const* command;
  char* const* environment;
  const sigset_t* signalMask;
  pid_t parent;
  int input;
  int output;
  int error;
  const cpu_set_t* cores;  // null: as ours
};

cpu_set_t setOf(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) {
    CPU_SET(core, &set);
  }
  return set;
}

void say(const char* text) {
  // Whether anybody reads it does not matter: the exit code tells, too.
  static_cast<void>(!::write(STDERR_FILENO, text, std::strlen(text)));
}

/// What we handle ourselves is not for the program. What our caller ignores stays so (nohup).
void resetHandlers() {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) {
      ::signal(number, SIG_DFL);
    }
  }
  ::signal(SIGPIPE, SIG_DFL);  // ours is ignored, which would be inherited
}

/// Becomes the program. Only calls that are safe after a fork in a process with threads.
[[noreturn]] void become(const ChildPart& part) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != part.parent) {
    ::_exit(1);  // the launcher ended before it could be told to the kernel
  }
  ::dup2(part.input, STDIN_FILENO);
  ::dup2(part.output, STDOUT_FILENO);
  ::dup2(part.error, STDERR_FILENO);
  if (part.cores != nullptr) {
    ::sched_setaffinity(0, sizeof *part.cores, part.cores);
  }
  resetHandlers();  // before signals are let in: one of ours would take what is meant to end it
  ::pthread_sigmask(SIG_SETMASK, part.signalMask, nullptr);
  ::execve(part.command[0], part.command, part.environment);
  const int error = errno;
  say("cannot execute ");
  say(part.command[0]);
  const char* why = ::strerrordesc_np(error);
  say(": ");
  say(why == nullptr ? "unknown error" : why);
  say(error == ENOEXEC ? " (a script must begin with a line such as #!/bin/sh)\n" : "\n");
  ::_exit(error == ENOENT ? 127 : 126);
}

}  // namespace

Worker::Worker(const Start& start) {
  RawFd output;
  RawFd error;
  RawFd input;
  makePipe(output_, output, Flow::TO_US);
  makePipe(error_, error, Flow::TO_US);
  if (start.input == Start::Input::PIPE) {
    makePipe(input_, input, Flow::TO_THEM);
  } else {
    input.fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  }
  const std::vector<char*> command = pointers(start.command);
  const std::vector<char*> environment = pointers(start.environment);
  const cpu_set_t cores = setOf(start.cores);
  const ChildPart part{.command = command.data(),
                       .environment = environment.data(),
                       .signalMask = &start.signalMask,
                       .parent = ::getpid(),
                       .input = start.input == Start::Input::OURS ? STDIN_FILENO : input.fd,
                       .output = output.fd,
                       .error = error.fd,
                       .cores = start.cores.empty() ? nullptr : &cores};
  pid_ = ::fork();
  if (pid_ < 0) {
    fail("start a process for a rank", errno);
  }
  if (pid_ == 0) {
    become(part);
  }
}

Worker::~Worker() {
  reap();
}

bool Worker::look() noexcept {
  siginfo_t info{};
  if (ended_ || ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid != pid_) {
    return false;
  }
  ended_ = true;
  result_ = info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
  return true;
}

void Worker::signal(int number) const noexcept {
  if (pid_ > 0 && ::kill(-pid_, number) != 0) {
    ::kill(pid_, number);  // it has not come to lead a group yet
  }
}

void Worker::reap() noexcept {
  if (pid_ > 0) {
    signal(SIGKILL);
    ::waitpid(pid_, nullptr, WNOHANG);
    pid_ = -1;
  }
}

}  // namespace unisono::launch

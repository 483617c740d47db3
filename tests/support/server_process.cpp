#include "support/server_process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unisono/store/tcp_store.hpp"

namespace unisono::test {
namespace {

int runGuarded(const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    static_cast<void>(std::fprintf(stderr, "child process: %s\n", error.what()));
    return 100;
  }
}

/// waitpid that goes on after signals.
pid_t waitFor(pid_t pid, int* status, int options) {
  pid_t got = -1;
  do {
    got = ::waitpid(pid, status, options);
  } while (got < 0 && errno == EINTR);
  return got;
}

int serve(bool useLibUv, int portPipe) {
  const TCPStore store("127.0.0.1",
                       TCPStoreOptions{.port = 0, .isServer = true, .useLibUV = useLibUv});
  const std::uint16_t port = store.port();
  if (::write(portPipe, &port, sizeof port) != sizeof port) {
    return 1;
  }
  ::close(portPipe);
  for (;;) {  // ends when it is killed
    ::pause();
  }
}

}  // namespace

Process::Process(const std::function<int()>& body) : maker_(::getpid()) {
  static_cast<void>(std::fflush(stdout));
  pid_ = ::fork();
  if (pid_ < 0) {
    throw std::runtime_error("cannot fork");
  }
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != maker_) {
      ::_exit(101);
    }
    ::_exit(runGuarded(body));
  }
}

Process::~Process() {
  if (maker_ == ::getpid()) {
    kill();
  }
}

void Process::stop() {
  ::kill(pid_, SIGSTOP);
  int status = 0;
  waitFor(pid_, &status, WUNTRACED);
}

void Process::resume() {
  ::kill(pid_, SIGCONT);
}

void Process::kill() {
  if (!gone_) {
    ::kill(pid_, SIGKILL);
    join();
  }
}

int Process::join() {
  if (!gone_) {
    waitFor(pid_, &status_, 0);
    gone_ = true;
  }
  return status_;
}

bool Process::ended() {
  if (!gone_ && waitFor(pid_, &status_, WNOHANG) == pid_) {
    gone_ = true;
  }
  return gone_;
}

ServerProcess::ServerProcess(bool useLibUv) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) {
    throw std::runtime_error("cannot make a pipe");
  }
  process_ = std::make_unique<Process>([&] {
    ::close(ends[0]);
    return serve(useLibUv, ends[1]);
  });
  ::close(ends[1]);
  const ssize_t got = ::read(ends[0], &port_, sizeof port_);
  char end = 0;
  static_cast<void>(::read(ends[0], &end, 1));  // returns when the child has closed its end too
  ::close(ends[0]);
  if (got != sizeof port_) {
    throw std::runtime_error("the server process did not start");
  }
}

}  // namespace unisono::test

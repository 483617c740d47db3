// Forked: a process of the test's own, which goes on beside it.
#pragma once

#include <csignal>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>

namespace unisono::test {

/// Runs `body` in a child, which is killed at the end. Made before the first thread is.
class Forked {
 public:
  explicit Forked(const std::function<void()>& body) : pid_(::fork()) {
    if (pid_ == 0) {
      try {
        body();
      } catch (const std::exception&) {
        ::_exit(1);
      }
      ::_exit(0);
    }
  }
  ~Forked() {
    kill(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;

  void kill(int signal) const { ::kill(pid_, signal); }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

}  // namespace unisono::test

#include "bench/process.hpp"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <memory>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.hpp"

namespace unisono::bench {
namespace {

constexpr int kPatienceMs = 30'000;

pid_t mother = 0;

/// In a child that has just been forked: goes on when its parent is no more.
void outliveTheParent() {
  const Deadline deadline = Deadline::after(Milliseconds(kPatienceMs));
  while (::getppid() == mother && !deadline.expired()) {
    ::sched_yield();
  }
}

/// A process that starts a program and dies before the program's process has taken its first step.
[[noreturn]] void startAndDie(int outputFd) {
  mother = ::getpid();
  static_cast<void>(::pthread_atfork(nullptr, nullptr, outliveTheParent));
  static_cast<void>(
      std::make_unique<Process>("/bin/sh",
                                std::vector<std::string>{"sh", "-c", str("echo ran >&", outputFd)})
          .release());
  ::_exit(0);
}

std::string readToTheEnd(int fd) {
  std::string text;
  std::array<char, 64> bytes{};
  pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
  while (::poll(&ready, 1, kPatienceMs) == 1) {
    const ssize_t got = ::read(fd, bytes.data(), bytes.size());
    if (got <= 0) {
      return text;
    }
    text.append(bytes.data(), static_cast<std::size_t>(got));
  }
  return text + "[still open]";
}

TEST(ProcessTest, DoesNotStartWhatWouldOutliveIt) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t starter = ::fork();
  if (starter == 0) {
    startAndDie(ends[1]);
  }
  ::close(ends[1]);

  EXPECT_EQ(readToTheEnd(ends[0]), "");

  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(starter, &status, 0), starter);
}

TEST(ProcessTest, GivesTheOutputLineByLine) {
  Process process("/bin/sh", {"sh", "-c", "echo one; echo two"});

  EXPECT_EQ(process.readLine(Milliseconds(kPatienceMs)), "one");
  EXPECT_EQ(process.readLine(Milliseconds(kPatienceMs)), "two");
  EXPECT_EQ(process.readLine(Milliseconds(kPatienceMs)), "");
}

}  // namespace
}  // namespace unisono::bench

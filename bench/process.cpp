#include "bench/process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "base/wait.hpp"
#include "net/listener.hpp"

namespace unisono::bench {
namespace {

/// In the child: becomes the program, with its output in `outputFd`, or ends with 127.
[[noreturn]] void become(const char* program, const std::vector<char*>& words, int outputFd,
                         const std::function<void()>& before, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {  // it was gone before: nobody will be told of its death
    ::_exit(127);
  }
  if (before) {
    before();
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);  // what is ignored would stay so
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(outputFd, STDOUT_FILENO);
  ::dup2(nothing, STDERR_FILENO);
  ::execv(program, words.data());
  ::_exit(127);
}

}  // namespace

Process::Process(const std::string& program, std::vector<std::string> words,
                 const std::function<void()>& before) {
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw DistError({.reason = Reason::RESOURCE, .what = str("no pipe: ", errnoDetail(errno))});
  }
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    become(program.c_str(), arguments, ends[1], before, parent);
  }
  ::close(ends[1]);
  output_ = UniqueFd(ends[0]);
  if (pid_ < 0) {
    throw DistError({.reason = Reason::RESOURCE,
                     .what = str("cannot start ", program, ": ", errnoDetail(errno))});
  }
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      output_(std::move(other.output_)),
      read_(std::move(other.read_)),
      ended_(other.ended_) {}

Process::~Process() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

bool Process::isGone() const {
  siginfo_t how{};
  return ::waitid(P_PID, static_cast<id_t>(pid_), &how, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         how.si_pid == pid_;
}

std::string Process::readLine(Milliseconds patience) {
  FdWaitable on(output_.get(), POLLIN);
  const WaitContext limit{.deadline = Deadline::after(patience), .subject = {}};
  const auto hasLine = [&] {
    pollfd ready{.fd = output_.get(), .events = POLLIN, .revents = 0};
    std::array<char, 4096> bytes;
    while (read_.find('\n') == std::string::npos && !ended_ && ::poll(&ready, 1, 0) == 1) {
      const ssize_t got = ::read(output_.get(), bytes.data(), bytes.size());
      ended_ = got <= 0;
      read_.append(bytes.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    }
    return ended_ || read_.find('\n') != std::string::npos;
  };
  static_cast<void>(waitUntil(hasLine, limit, on));
  const std::size_t end = read_.find('\n');
  const std::string line = end == std::string::npos ? "" : read_.substr(0, end);
  read_.erase(0, end == std::string::npos ? 0 : end + 1);
  return line;
}

std::string findProgram(const std::string& program) {
  if (program.find('/') != std::string::npos) {
    return ::access(program.c_str(), X_OK) == 0 ? program : "";
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = str(folder, "/", program);
    if (::access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return "";
}

std::string nearestPython() {
  constexpr const char* kHere = ".venv/bin/python";
  return ::access(kHere, X_OK) == 0 ? kHere : "python3";
}

std::uint16_t freePort() {
  return Listener::open("127.0.0.1", 0, "auto", Deadline::after(Milliseconds(1000))).port();
}

}  // namespace unisono::bench

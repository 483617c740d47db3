#include "terminal.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/fd.hpp"
#include "base/str.hpp"
#include "base/wait.hpp"

namespace unisono::cli {
namespace {

constexpr std::size_t kBuffered = 64 * 1024;
constexpr Milliseconds kRedraw(100);

std::atomic<int> arrived{0};
std::string buffer;  // of standard output
bool useColor = false;

extern "C" void onSignal(int signal) {
  static std::atomic<bool> again{false};
  if (again.exchange(true)) {
    ::_exit(128 + signal);
  }
  arrived.store(signal);
}

[[noreturn]] void failWith(std::string_view doing, std::string_view name, int error) {
  throw FileFailure(str("cannot ", doing, " ", name, ": ", errnoText(error)));
}

}  // namespace

void watchSignals() {
  ::signal(SIGPIPE, SIG_IGN);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    ::sigaction(number, nullptr, &before);
    if (before.sa_handler == SIG_IGN) {
      continue;  // started with nohup, or in the background of a script
    }
    struct sigaction action {};
    action.sa_handler = onSignal;  // without SA_RESTART: calls that block return
    ::sigaction(number, &action, nullptr);
  }
  setInterruptHook(throwIfInterrupted);
}

void throwIfInterrupted() {
  if (const int signal = arrived.exchange(0)) {
    throw Interrupted(signal);
  }
}

void writeAll(int fd, std::string_view bytes, std::string_view name) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    throwIfInterrupted();
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EPIPE) {
      throw ClosedPipe();
    } else if (errno != EINTR) {
      failWith("write to", name, errno);
    }
  }
}

void flushOutput() {
  const std::string bytes = std::exchange(buffer, {});
  writeAll(STDOUT_FILENO, bytes, "standard output");
}

void print(std::string_view text) {
  buffer += text;
  if (buffer.size() >= kBuffered) {
    flushOutput();
  }
}

void printLine(std::string_view line) {
  print(line);
  print("\n");
}

void doWithoutOutput() {
  if ((::fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY) {  // see replaceClosedStreams()
    const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    ::dup2(nowhere.get(), STDOUT_FILENO);
  }
}

bool outputClosed() {
  pollfd entry{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return ::poll(&entry, 1, 0) == 1 && (entry.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
}

void complain(std::string_view what, std::string_view hint) {
  const std::string line =
      str("unisono: ", printable(what), ".", hint.empty() ? "" : " DO: ", printable(hint));
  std::fprintf(stderr, "%s\n", line.c_str());
}

std::string readAll(const std::string& name, std::size_t most) {
  const bool standard = name == "-";
  const UniqueFd opened(standard ? -1 : ::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  const int fd = standard ? STDIN_FILENO : opened.get();
  const std::string shown = standard ? "standard input" : name.empty() ? "''" : name;
  if (fd < 0) {
    failWith("read", shown, errno);
  }
  std::string content;
  FdWaitable input(fd, POLLIN);
  std::string piece(kBuffered, '\0');
  for (ssize_t count = 1; count != 0;) {  // ends when the file does
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    const auto ready = [&] { return ::poll(&entry, 1, 0) != 0; };
    waitUntil(ready, {.deadline = Deadline::never(), .subject = {}}, input);
    count = ::read(fd, piece.data(), piece.size());
    throwIfInterrupted();
    if (count < 0 && errno != EINTR) {
      failWith("read", shown, errno);
    }
    content.append(piece, 0, count > 0 ? static_cast<std::size_t>(count) : 0);
    if (content.size() > most) {
      throw FileFailure(str("cannot use ", shown, ": it holds more than ", formatBytes(most)));
    }
  }
  return content;
}

void setColor(std::string_view choice) {
  const char* refused = std::getenv("NO_COLOR");
  const char* kind = std::getenv("TERM");
  const bool dumb = kind == nullptr || std::string_view(kind) == "dumb";
  const bool wanted = (refused == nullptr || *refused == '\0') && !dumb && ::isatty(STDOUT_FILENO);
  useColor = choice == "always" || (choice != "never" && wanted);
}

std::string colored(Color color, std::string_view text) {
  if (!useColor) {
    return std::string(text);
  }
  const char* code = color == Color::GREEN    ? "32"
                     : color == Color::YELLOW ? "33"
                     : color == Color::RED    ? "31"
                                              : "2";
  return str("\033[", code, "m", text, "\033[0m");
}

Progress::Progress(std::string_view what, std::uint64_t total)
    : what_(what), total_(total), shown_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (drawn_) {
    std::fputs("\r\033[K", stderr);
  }
}

void Progress::at(std::uint64_t done) {
  throwIfInterrupted();
  const TimePoint now = systemClock().now();
  if (!shown_ || now < next_) {
    return;
  }
  // The first line only after a moment: short work shows none.
  if (next_ != TimePoint{}) {
    std::fputs(str("\r\033[K", what_, " ", done, " of ", total_, " keys").c_str(), stderr);
    std::fflush(stderr);
    drawn_ = true;
  }
  next_ = now + kRedraw;
}

}  // namespace unisono::cli

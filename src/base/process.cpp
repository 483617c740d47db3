#include "base/process.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <system_error>
#include <unistd.h>

#include "unisono/base/error.hpp"

#include "base/fd.hpp"
#include "base/str.hpp"

namespace unisono {
namespace {

/// The first line of a small file; empty when it cannot be read. A stream would be silent about
/// a lack of memory too, and a process without it be taken for another on another host.
std::string firstLine(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char bytes[1024];
  const ssize_t got = file.valid() ? ::read(file.get(), bytes, sizeof bytes) : -1;
  const std::string_view text(bytes, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return std::string(text.substr(0, text.find('\n')));
}

template <typename Number>
bool parse(std::string_view text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

/// Cuts the first word off `text`.
std::string_view takeWord(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

}  // namespace

std::optional<ProcessState> lookAt(pid_t pid) {
  const std::string line = firstLine(str("/proc/", pid, "/stat"));
  // The second field, the name in parentheses, may hold anything: count from its end.
  const std::size_t nameEnd = line.rfind(')');
  if (nameEnd == std::string::npos) {
    return std::nullopt;
  }
  std::string_view rest = std::string_view(line).substr(std::min(nameEnd + 2, line.size()));
  ProcessState state;
  for (int field = 3; field <= 22; ++field) {  // numbered as in proc(5)
    const std::string_view word = takeWord(rest);
    const bool good = field == 3    ? !word.empty()
                      : field == 20 ? parse(word, state.threads)
                      : field == 22 ? parse(word, state.startTicks)
                                    : true;
    if (!good) {
      return std::nullopt;
    }
    state.state = field == 3 ? word.front() : state.state;
  }
  return state;
}

std::string describeState(const std::optional<ProcessState>& process) {
  const char state = process ? process->state : '?';
  return str("state ", state,
             state == 'T'   ? " stopped"
             : state == 't' ? " stopped by a debugger"
                            : "");
}

bool isDumpingCore(pid_t pid) {
  std::ifstream file(str("/proc/", pid, "/status"));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("CoreDumping:")) {
      return line.find('1') != std::string::npos;
    }
  }
  return false;
}

ProcessMark thisProcess() {
  // A mark with holes would be taken for another process on another host.
  const int probe = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (probe < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
    throw DistError({.reason = Reason::RESOURCE,
                     .what = str("this process cannot look at itself in /proc: ",
                                 std::system_category().message(errno)),
                     .hint = "raise the limit of open descriptors (ulimit -n)"});
  }
  ::close(probe);
  ProcessMark mark;
  mark.pid = ::getpid();
  if (const auto state = lookAt(mark.pid)) {
    mark.startTicks = state->startTicks;
  }
  struct stat space {};
  if (::stat("/proc/self/ns/pid", &space) == 0) {
    mark.pidNamespace = space.st_ino;
  }
  mark.boot = firstLine("/proc/sys/kernel/random/boot_id");
  utsname system{};
  ::uname(&system);
  mark.host = str(system.nodename, "/", firstLine("/etc/machine-id"));
  return mark;
}

std::string encodeMark(const ProcessMark& mark) {
  return str(mark.pid, " ", mark.startTicks, " ", mark.pidNamespace, " ", mark.boot, " ",
             mark.host);
}

std::optional<ProcessMark> decodeMark(std::string_view text) {
  ProcessMark mark;
  if (!parse(takeWord(text), mark.pid) || !parse(takeWord(text), mark.startTicks) ||
      !parse(takeWord(text), mark.pidNamespace) || mark.pid <= 0) {
    return std::nullopt;
  }
  mark.boot = takeWord(text);
  mark.host = text;
  return mark;
}

Life lifeOf(const ProcessMark& process, const ProcessMark& here) {
  if (process.boot != here.boot) {
    return process.host == here.host ? Life::GONE : Life::UNSEEN;  // same host: booted since
  }
  if (process.pidNamespace != here.pidNamespace) {
    return Life::UNSEEN;
  }
  const auto state = lookAt(process.pid);
  if (!state) {
    // Without /proc, or when it hides others, all that can be asked is whether the pid is used.
    return ::kill(process.pid, 0) != 0 && errno == ESRCH ? Life::GONE : Life::UNSEEN;
  }
  // A first thread that has ended looks like a zombie while others still run.
  const bool ended = (state->state == 'Z' || state->state == 'X') && state->threads <= 1;
  return ended || state->startTicks != process.startTicks ? Life::GONE : Life::ALIVE;
}

}  // namespace unisono

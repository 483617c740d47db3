// Process: who a process is, and what became of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace unisono {

/// A process, described so that others can find out later whether it still lives.
struct ProcessMark {
  pid_t pid = 0;
  std::uint64_t startTicks = 0;    // since boot; tells a process from a later one of the same pid
  std::uint64_t pidNamespace = 0;  // where the pid means something
  std::string boot;                // the kernel's random id of this boot
  std::string host;                // its name and machine id
};

/// What /proc says of a process.
struct ProcessState {
  char state = '?';  // R running, S sleeping, T stopped, t traced, Z ended, …
  std::int64_t threads = 0;
  std::uint64_t startTicks = 0;
};

/// Nothing when there is no such process, or it cannot be seen.
std::optional<ProcessState> lookAt(pid_t pid);

/// "state T stopped"; "state ?" of one that cannot be seen.
std::string describeState(const std::optional<ProcessState>& process);

/// Whether the kernel is writing its core file: it will not run again.
bool isDumpingCore(pid_t pid);

/// The calling process.
ProcessMark thisProcess();

/// "pid startTicks pidNamespace boot host".
std::string encodeMark(const ProcessMark& mark);
std::optional<ProcessMark> decodeMark(std::string_view text);

enum class Life : std::uint8_t {
  GONE,
  ALIVE,
  UNSEEN,  // on another host, or in a container that we cannot look into
};

/// What became of `process`, as seen from `here`.
Life lifeOf(const ProcessMark& process, const ProcessMark& here);

}  // namespace unisono

// Process: another program, run for a benchmark and gone with it.
#pragma once

#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"

namespace unisono::bench {

class Process {
 public:
  /// Starts the file `program` with `words`, the first of which is the name that it sees of
  /// itself. `before` runs in the child and may only use what is allowed after fork(). The child is
  /// killed when this object goes, or the thread that made it.
  Process(const std::string& program, std::vector<std::string> words,
          const std::function<void()>& before = {});
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;

  /// The next line of its output, without the newline; empty at its end or after `patience`.
  std::string readLine(Milliseconds patience);

  /// Whether readLine() has come to the end of its output, which is mostly its own end.
  bool ended() const { return ended_; }

  pid_t pid() const { return pid_; }

  /// Whether it runs no more.
  bool isGone() const;

 private:
  pid_t pid_ = -1;
  UniqueFd output_;
  std::string read_;
  bool ended_ = false;
};

/// Where PATH has `program`, or nothing.
std::string findProgram(const std::string& program);

/// The Python of the virtual environment in this folder (.venv), or that of PATH.
std::string nearestPython();

/// A port of 127.0.0.1 on which nobody listens at the moment.
std::uint16_t freePort();

}  // namespace unisono::bench

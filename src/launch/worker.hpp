// Worker: the process of one rank, and all that it starts.
//
// It leads a session of its own, so that a signal reaches its children as well, and Ctrl-C on the
// terminal reaches it only through us. The kernel kills it when the thread that started it ends,
// however that comes about.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "base/fd.hpp"

namespace unisono::launch {

class Worker {
 public:
  struct Start {
    std::vector<std::string> command;
    std::vector<std::string> environment;
    sigset_t signalMask;
    /// What it reads: our standard input, what is written into a pipe, nothing.
    enum class Input : std::uint8_t { OURS, PIPE, NOTHING } input = Input::NOTHING;
    std::vector<int> cores;  // that it may use; empty: as we may
  };

  /// Starts it. Throws DistError (RESOURCE) when there are too many processes or descriptors. That
  /// the program cannot be executed it says itself, and exits with 126 or 127 as in a shell.
  explicit Worker(const Start& start);

  /// Kills what is left.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  pid_t pid() const noexcept { return pid_; }

  /// Our ends of its standard output and error; to be taken once.
  UniqueFd takeOutput() noexcept { return std::move(output_); }
  UniqueFd takeError() noexcept { return std::move(error_); }
  /// Our end of its standard input, if that is a pipe; to be taken once.
  UniqueFd takeInput() noexcept { return std::move(input_); }

  /// Looks whether it has ended; true when that was not known before. It stays a zombie until
  /// reap(), so that its number, which is that of its group, stays its own.
  bool look() noexcept;
  bool hasEnded() const noexcept { return ended_; }

  /// How: 0 for success, an exit code, or minus the number of a signal.
  int result() const noexcept { return result_; }

  /// To it and its children, also when it has ended itself.
  void signal(int number) const noexcept;

  /// Kills what is left of its group, and lets the process go if it has ended.
  void reap() noexcept;

 private:
  pid_t pid_ = -1;
  bool ended_ = false;
  int result_ = 0;
  UniqueFd input_;
  UniqueFd output_;
  UniqueFd error_;
};

}  // namespace unisono::launch

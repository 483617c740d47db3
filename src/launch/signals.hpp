// Signals: those that end a program and those of its children, as a descriptor to be watched.
#pragma once

#include <csignal>
#include <optional>
#include <span>

#include "base/fd.hpp"

namespace unisono::launch {

/// While it lives, its signals are blocked in the thread that made it, and read from fd().
///
/// Thread safety: for that thread only. Threads that are started meanwhile block them, too.
class Signals {
 public:
  /// `numbers` and SIGCHLD; not those that the process ignores (nohup means that it stays). Throws
  /// DistError (RESOURCE) when there is no descriptor for them.
  explicit Signals(std::span<const int> numbers);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const noexcept { return fd_.get(); }

  /// The number of one that has arrived, if any.
  std::optional<int> next() noexcept;

  /// The mask of before, for processes that are started.
  const sigset_t& maskBefore() const noexcept { return before_; }

 private:
  sigset_t before_{};
  UniqueFd fd_;
};

}  // namespace unisono::launch

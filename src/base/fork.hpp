// Fork: a forked child inherits memory but not threads, so its copies of our handles are inert.
//
// Handles remember the generation they were made in. In a child the generation differs:
// calls throw FORKED, destructors do nothing, and our descriptors were closed right after
// the fork, so that peers still see the end of the parent when the parent ends.
#pragma once

#include <cstdint>
#include <string_view>

namespace unisono {

/// 0 in the first process, one more in each forked child.
std::uint32_t forkGeneration() noexcept;

/// Whether a handle was made by a parent of this process.
class ForkGuard {
 public:
  ForkGuard() noexcept : generation_(forkGeneration()) {}

  bool inChild() const noexcept { return generation_ != forkGeneration(); }

  /// Throws UsageError (FORKED) in a child; `subject` is what was used, as in "TCPStore".
  void check(std::string_view subject) const {
    if (inChild()) [[unlikely]] {
      refuse(subject);
    }
  }

 private:
  [[noreturn]] static void refuse(std::string_view subject);
  std::uint32_t generation_;
};

/// A T that goes with its holder, except in a forked child: another thread may have been changing
/// it at the moment of the fork, so there it is left behind as it is.
template <typename T>
class LeakedInChild {
 public:
  LeakedInChild() : value_(new T) {}
  ~LeakedInChild() {
    if (!madeIn_.inChild()) {
      delete value_;
    }
  }
  LeakedInChild(const LeakedInChild&) = delete;
  LeakedInChild& operator=(const LeakedInChild&) = delete;

  T& operator*() const noexcept { return *value_; }
  T* operator->() const noexcept { return value_; }

 private:
  T* const value_;
  ForkGuard madeIn_;
};

/// Notes that `fd` is ours and is to be closed in forked children; forgetFd() ends that.
void rememberFd(int fd) noexcept;
void forgetFd(int fd) noexcept;

}  // namespace unisono

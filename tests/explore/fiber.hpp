// Fiber: a thread of control that runs only when it is resumed.
//
// All ranks of an exploration are fibers of one thread, so nothing happens at the same time, and a
// run can be repeated exactly.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <functional>
#include <memory>
#include <ucontext.h>

namespace unisono::explore {

class Fiber {
 public:
  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Forgets what it was doing, wherever that was, and begins with `body` when next resumed. What
  /// was on its stack is not destroyed, as in a process that was killed.
  void begin(std::function<void()> body);

  /// Runs it until it calls leave() or its body ends, which must not throw.
  void resume();
  /// Called on the fiber: goes back to who resumed it.
  void leave();

 private:
  /// What the C++ runtime keeps per thread about exceptions that are being handled.
  struct Handling {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };
  static void enter(unsigned int low, unsigned int high);
  void swapHandling();

  static constexpr std::size_t kStack = std::size_t{256} << 10U;

  std::unique_ptr<std::byte[]> stack_;
  std::function<void()> body_;
  bool fresh_ = false;
  ucontext_t entry_{};
  std::jmp_buf here_{};
  std::jmp_buf back_{};
  Handling handling_;
};

}  // namespace unisono::explore

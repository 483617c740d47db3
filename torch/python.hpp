// The interpreter, as far as code that knows nothing of it must mind it.
#pragma once

#include <utility>

namespace unisono::plugin {

/// Gives the interpreter's lock back for as long as it lives, if this thread has it.
class InterpreterUnlock {
 public:
  InterpreterUnlock() noexcept;
  ~InterpreterUnlock();
  InterpreterUnlock(const InterpreterUnlock&) = delete;
  InterpreterUnlock& operator=(const InterpreterUnlock&) = delete;

 private:
  void* state_ = nullptr;
};

template <typename Action>
void withoutInterpreter(Action&& action) {
  const InterpreterUnlock unlock;
  std::forward<Action>(action)();
}

}  // namespace unisono::plugin

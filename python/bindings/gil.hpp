// The interpreter's lock, taken and given back so that leaving the interpreter never crashes.
//
// A daemon thread may be inside one of our calls when the main thread leaves Python. When it asks
// for the lock again, CPython before 3.14 ends it by unwinding its stack, which C++ takes for a
// crash. Such a thread is parked instead: it sleeps until the process has ended.
#pragma once

#include <exception>
#include <nanobind/nanobind.h>
#include <optional>
#include <type_traits>
#include <utility>

namespace unisono::python {

namespace nb = nanobind;

/// Sleeps until the process has ended.
[[noreturn]] void park() noexcept;

/// Takes the lock back after PyEval_SaveThread(); does not return once the interpreter is closing.
void takeLockBack(PyThreadState* state) noexcept;

/// Runs `action` without the lock, so that other Python threads go on meanwhile.
template <typename Action>
auto withoutLock(Action&& action) {
  using Result = std::invoke_result_t<Action>;
  PyThreadState* const state = PyEval_SaveThread();
  std::exception_ptr failure;
  if constexpr (std::is_void_v<Result>) {
    try {
      action();
    } catch (...) {
      failure = std::current_exception();
    }
    takeLockBack(state);
    if (failure) {
      std::rethrow_exception(std::move(failure));
    }
  } else {
    std::optional<Result> result;
    try {
      result.emplace(action());
    } catch (...) {
      failure = std::current_exception();
    }
    takeLockBack(state);
    if (failure) {
      std::rethrow_exception(std::move(failure));
    }
    return std::move(*result);
  }
}

/// Holding the lock on a thread that does not have it, or may have it already. Throws
/// DistStoreError (SHUTDOWN) when the interpreter lets nobody in any more.
class HeldLock {
 public:
  HeldLock();

 private:
  nb::gil_scoped_acquire lock_;
};

/// Holding the lock for a moment on a thread of ours, or on one that may have it already, to run or
/// let go of what is Python's. Once the interpreter is closing only its main thread is let in.
class GuestLock {
 public:
  GuestLock() noexcept;
  ~GuestLock();
  GuestLock(const GuestLock&) = delete;
  GuestLock& operator=(const GuestLock&) = delete;

  /// False: the lock is not held, and nothing of Python's may be touched.
  explicit operator bool() const noexcept { return entered_; }

 private:
  bool entered_ = false;
  PyGILState_STATE state_{};
};

/// Calls into Python; what it raises is thrown. For calls from C++ that Python called.
nb::object call(const nb::object& method, const nb::tuple& arguments);

/// Lets go of one reference, on whatever thread; after the interpreter's end the object is left.
void forget(PyObject* object) noexcept;

/// Makes waits obey Python's signal handlers, and notes in `module` when the interpreter closes.
void followInterpreter(nb::module_& module);

}  // namespace unisono::python

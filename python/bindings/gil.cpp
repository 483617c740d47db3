#include "bindings/gil.hpp"

#include <atomic>
#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

#include "unisono/base/error.hpp"

#include "base/wait.hpp"

namespace unisono::python {
namespace {

// Set while the interpreter takes its modules apart. From then on nobody asks for the lock; who
// asked just before is counted, and waited for, since the state it needs is freed soon after.
constinit std::atomic<bool> closed{false};
constinit std::atomic<int> asking{0};

// How long the end of the interpreter waits for those who ask. From CPython 3.14 on they never
// come back, but then they do no harm either.
constexpr Milliseconds kPatience(200);

bool onMainThread() noexcept {
  return ::gettid() == ::getpid();  // also in a forked child, whose only thread it is
}

/// The interrupt hook of waitUntil(): Ctrl-C, and whatever else the program handles.
void checkSignals() {
  if (!onMainThread()) {
    return;  // Python runs signal handlers on its main thread only
  }
  const nb::gil_scoped_acquire lock;
  if (lock.is_valid() && PyErr_CheckSignals() != 0) {
    throw nb::python_error();
  }
}

bool interpreterIsClosing() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

void close(void*) noexcept {
  if (!interpreterIsClosing()) {
    return;  // only the module goes: somebody cleared sys.modules
  }
  setInterruptHook(nullptr);
  closed.store(true);
  const WaitContext context{.deadline = Deadline::after(kPatience), .subject = {}};
  TimerWaitable moment(Milliseconds(1));
  static_cast<void>(waitUntil([] { return asking.load() == 0; }, context, moment));
}

}  // namespace

void park() noexcept {
  for (;;) {  // ends with the process
    ::pause();
  }
}

HeldLock::HeldLock() {
  if (!lock_.is_valid()) {
    throw DistStoreError({.reason = Reason::SHUTDOWN, .what = "the interpreter is closing"});
  }
}

GuestLock::GuestLock() noexcept {
  asking.fetch_add(1);
  // Which thread this is, is a question to the kernel: asked only when it matters.
  if (Py_IsInitialized() != 0 && (!closed.load() || onMainThread())) {
    try {
      state_ = PyGILState_Ensure();
      entered_ = true;
    } catch (abi::__forced_unwind&) {  // the interpreter is closing and ends this thread
      asking.fetch_sub(1);
      park();
    }
  }
  asking.fetch_sub(1);
}

GuestLock::~GuestLock() {
  if (entered_) {
    PyGILState_Release(state_);
  }
}

nb::object call(const nb::object& method, const nb::tuple& arguments) {
  PyObject* result = nullptr;
  try {
    result = PyObject_CallObject(method.ptr(), arguments.ptr());
  } catch (abi::__forced_unwind&) {  // the interpreter closes under the method
    park();  // here: further out, objects would be let go of without the lock
  }
  if (result == nullptr) {
    throw nb::python_error();
  }
  return nb::steal(result);
}

void takeLockBack(PyThreadState* state) noexcept {
  asking.fetch_add(1);
  if (closed.load() && !onMainThread()) {
    asking.fetch_sub(1);
    park();
  }
  try {
    PyEval_RestoreThread(state);
    asking.fetch_sub(1);
  } catch (abi::__forced_unwind&) {  // the interpreter is closing and ends this thread
    asking.fetch_sub(1);
    park();
  }
}

void forget(PyObject* object) noexcept {
  if (const nb::detail::cleanup_guard guard{}; guard) {
    Py_DECREF(object);
  }
}

void followInterpreter(nb::module_& module) {
  // Those who were asking at a fork exist only in the parent.
  ::pthread_atfork(nullptr, nullptr, [] { asking.store(0); });
  setInterruptHook(checkSignals);
  // Goes with the module's names, which is after the last moment at which other threads can get
  // the lock, and before anything that they use is freed.
  module.attr("_lifetime") = nb::capsule(&closed, [](void* flag) noexcept { close(flag); });
}

}  // namespace unisono::python

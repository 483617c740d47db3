// Work: an operation under way.
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <memory>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

#include "unisono/base/error.hpp"

#include "base/fd.hpp"
#include "bindings/bind.hpp"
#include "bindings/gil.hpp"
#include "bindings/work_handle.hpp"

namespace unisono::python {
namespace {

UniqueFd checked(int fd) {
  if (fd < 0) {
    throw DistBackendError({.reason = Reason::RESOURCE,
                            .what = "there is no descriptor to be told of an operation's end",
                            .hint = "raise the limit on open files: ulimit -n"});
  }
  return UniqueFd(fd);
}

/// A descriptor that can be read from when the work has ended; the caller closes it. The thread
/// that ends the work has one of its own, so that the caller may close this one before.
int endDescriptor(const WorkHandle& self) {
  const auto told = std::make_shared<UniqueFd>(checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  UniqueFd given = checked(::fcntl(told->get(), F_DUPFD_CLOEXEC, 0));
  self.work().addCallback([told] {
    const std::uint64_t one = 1;
    // Cannot fail: the counter holds far more than one.
    static_cast<void>(::write(told->get(), &one, sizeof one) == sizeof one);
  });
  return given.release();
}

/// Calls `callable` without arguments once the work has ended, on the thread that ends it.
void addDoneCallback(const WorkHandle& self, const nb::callable& callable) {
  const std::shared_ptr<PyObject> kept(nb::borrow(callable).release().ptr(), [](PyObject* object) {
    if (const GuestLock lock; lock) {
      Py_DECREF(object);
    }
  });
  self.work().addCallback([kept] {
    const GuestLock lock;
    if (!lock) {
      return;  // too late: the interpreter is closing
    }
    PyObject* const result = PyObject_CallNoArgs(kept.get());
    if (result == nullptr) {
      PyErr_WriteUnraisable(kept.get());
    }
    Py_XDECREF(result);
  });
}

}  // namespace

void bindWork(nb::module_& module) {
  nb::class_<WorkHandle>(module, "Work", "An operation under way.")
      .def(
          "wait",
          [](const WorkHandle& self, std::int64_t milliseconds) {
            const auto most =
                milliseconds < 0 ? kNoTimeout : std::chrono::milliseconds(milliseconds);
            return withoutLock([&] { return self.work().wait(most); });
          },
          nb::arg("milliseconds"),
          "Waits for its end, below 0 without limit; raises what it failed with.")
      .def(
          "is_completed", [](const WorkHandle& self) { return self.work().isCompleted(); },
          "Whether it has ended, well or not.")
      .def(
          "is_success", [](const WorkHandle& self) { return self.work().isSuccess(); },
          "False once it has failed.")
      .def(
          "source_rank", [](const WorkHandle& self) { return self.work().sourceRank(); },
          "The rank that a message came from.")
      .def(
          "op_type", [](const WorkHandle& self) { return static_cast<int>(self.work().opType()); },
          "The number of its operation, c10d's; 100 where that is not known any more.")
      .def(
          "duration", [](const WorkHandle& self) { return self.work().duration().count(); },
          "How many milliseconds it ran; NotSupportedError where nobody has measured that.")
      .def("end_descriptor", endDescriptor,
           "A descriptor that can be read from once it has ended, to be closed by the caller.")
      .def("add_done_callback", addDoneCallback, nb::arg("callback"),
           nb::sig("def add_done_callback(self, callback: collections.abc.Callable[[], object]) -> "
                   "None"),
           "Calls `callback` once it has ended, on the thread that ends it.");
}

}  // namespace unisono::python

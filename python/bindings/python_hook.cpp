#include "bindings/python_hook.hpp"

#include <exception>
#include <memory>
#include <nanobind/stl/unique_ptr.h>
#include <stdexcept>
#include <utility>

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "bindings/array.hpp"
#include "bindings/gil.hpp"

namespace unisono::python {
namespace {

/// "ValueError: no such file", as the last line of a traceback has it.
std::string lastLine(const nb::python_error& error) {
  const nb::str type = nb::borrow<nb::str>(error.type().attr("__name__"));
  const nb::str text(error.value());
  return str(type.c_str(), ": ", text.c_str());
}

nb::object referred(PyObject* weak) {
  return call(nb::borrow(weak), nb::make_tuple());
}

}  // namespace

HookAnswer::~HookAnswer() {
  if (!future_.done()) {
    fail("it was forgotten, and nobody can complete it");
  }
}

void HookAnswer::give(nb::handle array) {
  Tensor tensor = toTensor(array, Access::READ);
  withoutLock([&] { future_.setValue(std::move(tensor)); });  // who waits may want the lock
}

void HookAnswer::fail(const std::string& why) {
  const auto error = std::make_exception_ptr(UsageError(
      {.reason = Reason::USAGE,
       .what = str("the future of the communication hook failed for bucket ", bucket_, ": ", why),
       .hint = "complete the future that the hook returned by one array, as large as the bucket"}));
  withoutLock([&] { future_.setError(error); });
}

PythonHook::PythonHook(nb::handle hook) : weak_(PyWeakref_NewRef(hook.ptr(), nullptr)) {
  if (weak_ == nullptr) {
    throw nb::python_error();
  }
}

PythonHook::~PythonHook() {
  forget(weak_);
}

Future PythonHook::run(GradBucket& bucket) {
  const HeldLock lock;
  auto answer = std::make_unique<HookAnswer>(bucket.index());
  const Future future = answer->future();
  try {
    // A bucket of its own: the hook may look at it later, too.
    call(referred(weak_), nb::make_tuple(GradBucket(bucket), nb::cast(std::move(answer))));
  } catch (const nb::python_error& error) {
    throw std::runtime_error(lastLine(error));  // the Reducer says for which bucket
  }
  return future;
}

}  // namespace unisono::python

#include "bindings/python_failure.hpp"

#include <string>

#include "base/str.hpp"
#include "bindings/gil.hpp"

namespace unisono::python {
namespace {

/// "ValueError: no such file"; what has no text of its own is known by its type alone.
std::string textOf(nb::handle exception) {
  const nb::str type = nb::borrow<nb::str>(exception.type().attr("__name__"));
  const nb::object text = nb::steal(PyObject_Str(exception.ptr()));
  if (!text.is_valid()) {
    PyErr_Clear();
    return type.c_str();
  }
  return str(type.c_str(), ": ", nb::borrow<nb::str>(text).c_str());
}

}  // namespace

PythonFailure::PythonFailure(nb::handle raised)
    : DistBackendError({.reason = Reason::ABORTED,
                        .what = str("an operation written in Python raised ", textOf(raised)),
                        .hint = "see the exception"}),
      exception_(nb::borrow(raised).release().ptr(), forget) {}

PythonFailure::~PythonFailure() = default;

void PythonFailure::raise() const {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception_.get())), exception_.get());
}

}  // namespace unisono::python

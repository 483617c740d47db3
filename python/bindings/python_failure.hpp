// PythonFailure: an exception of Python on its way through C++, to be raised again as itself.
#pragma once

#include <memory>
#include <nanobind/nanobind.h>

#include "unisono/base/error.hpp"

namespace unisono::python {

namespace nb = nanobind;

/// What an operation written in Python failed with. To C++ it is an error of the backend; in Python
/// the very exception is raised, however often the error is thrown.
///
/// Threads: made with the interpreter's lock held; copied and let go of without it, too.
class PythonFailure final : public DistBackendError {
 public:
  explicit PythonFailure(nb::handle raised);
  ~PythonFailure() override;
  PythonFailure(const PythonFailure&) = default;
  PythonFailure& operator=(const PythonFailure&) = default;

  /// Sets it as the error of this thread, which holds the interpreter's lock.
  void raise() const;

 private:
  std::shared_ptr<PyObject> exception_;
};

}  // namespace unisono::python

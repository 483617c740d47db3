// PythonBackend: what carries out a group's operations where they are written in Python; and
// OpenWork, the work of an operation that Python ends.
#pragma once

#include <atomic>
#include <exception>
#include <nanobind/nanobind.h>
#include <string>
#include <string_view>

#include "unisono/backend/backend.hpp"
#include "unisono/work/work.hpp"

namespace unisono::python {

namespace nb = nanobind;

/// A work that whoever holds it may end. One that is let go of before has failed: nobody is left to
/// end it, and those who wait must learn that.
class OpenWork final : public Work {
 public:
  explicit OpenWork(OpType type = OpType::UNKNOWN, std::uint64_t seq = 0) : Work(type, seq) {}
  ~OpenWork() override;

  /// The first end counts. Callbacks run here, so without the interpreter's lock.
  void end(std::exception_ptr error = nullptr, TensorList outputs = {});

 private:
  std::atomic<bool> ended_{false};
};

/// Calls `core.submit(...)`, as Group.submit() is called, for each operation, and follows the Work
/// that it gives. Python uses such groups without coming by here: this is for the operations that
/// C++ begins, as the Reducer does. What Python raises is thrown as PythonFailure.
///
/// Threads: called without the interpreter's lock; takes it for each call.
class PythonBackend final : public Backend {
 public:
  /// `core` is kept by whoever uses the group, not from here: both can still be collected. Whether
  /// it has all_gather_single is asked before it is called; other operations it refuses itself.
  PythonBackend(const BackendParams& params, std::string name, nb::handle core, bool gathers);
  ~PythonBackend() override;

  std::string_view name() const noexcept override { return name_; }
  WorkPtr start(CollectiveArgs&& args) override;

 private:
  /// What Python made of it.
  WorkPtr ask(const CollectiveArgs& args) const;

  const std::string name_;
  PyObject* const weak_;  // a weak reference
};

}  // namespace unisono::python

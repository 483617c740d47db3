// PythonHook: a communication hook that is called in Python; see unisono/_hooks.py.
#pragma once

#include <cstddef>
#include <nanobind/nanobind.h>
#include <string>

#include "unisono/ddp/comm_hook.hpp"

namespace unisono::python {

namespace nb = nanobind;

/// What a hook says to one bucket, later and on whatever thread; the first word counts. That it is
/// let go of without one is the last moment to learn that none will come.
class HookAnswer {
 public:
  explicit HookAnswer(std::size_t bucket) : bucket_(bucket) {}
  ~HookAnswer();
  HookAnswer(const HookAnswer&) = delete;
  HookAnswer& operator=(const HookAnswer&) = delete;

  // With the interpreter's lock held.
  void give(nb::handle array);
  void fail(const std::string& why);

  const Future& future() const noexcept { return future_; }

 private:
  const std::size_t bucket_;
  Future future_;
};

/// Calls `hook(bucket, answer)`. The hook is kept by whoever uses it, not from here: so it may lead
/// back to its user, and both can still be collected.
///
/// Threads: called without the interpreter's lock; takes it for each call.
class PythonHook final : public CommHook {
 public:
  explicit PythonHook(nb::handle hook);
  ~PythonHook() override;
  PythonHook(const PythonHook&) = delete;
  PythonHook& operator=(const PythonHook&) = delete;

  Future run(GradBucket& bucket) override;

 private:
  PyObject* const weak_;  // a weak reference
};

}  // namespace unisono::python

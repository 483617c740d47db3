// CompletionWatch: tells Python of each operation of a group that has ended.
#pragma once

#include <memory>
#include <nanobind/nanobind.h>

#include "unisono/group/group.hpp"

namespace unisono::python {

namespace nb = nanobind;

/// Calls `hook(operation, number, started, finished, seconds)` for each operation that is begun
/// from now on: c10d's number of its kind, its place among the operations, both times in
/// nanoseconds of the monotonic clock, and how long it ran. On the thread that ended it; what the
/// hook raises is reported and dropped.
class CompletionWatch {
 public:
  CompletionWatch(const Group& group, const nb::callable& hook);

  /// Returns when the hook was told of all operations that were begun; obeys signals.
  void wait() const;

 private:
  struct Pending;

  const std::shared_ptr<Pending> pending_;
  HookHandle started_;
  HookHandle ended_;
};

}  // namespace unisono::python

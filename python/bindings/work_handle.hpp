// WorkHandle: what an operation under way is in Python; unisono/_work.py makes it comfortable.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "unisono/work/work.hpp"

namespace unisono::python {

class WorkHandle {
 public:
  /// `arrays` are what the tensors of the operation keep alive. Held here too, they are most often
  /// let go of where the interpreter's lock is held anyway.
  WorkHandle(WorkPtr work, std::vector<std::shared_ptr<const void>> arrays) noexcept
      : work_(std::move(work)), arrays_(std::move(arrays)) {}

  Work& work() const noexcept { return *work_; }

 private:
  WorkPtr work_;
  std::vector<std::shared_ptr<const void>> arrays_;
};

}  // namespace unisono::python

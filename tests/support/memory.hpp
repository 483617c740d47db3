// How much memory a test program has allocated with new and not freed yet.
//
// Whatever links this has operator new and delete replaced by ones that count.
#pragma once

#include <cstddef>

namespace unisono::test {

/// Of all threads.
std::size_t liveBytes() noexcept;

/// The most that liveBytes() has been since the last call of resetPeakBytes().
std::size_t peakBytes() noexcept;
void resetPeakBytes() noexcept;

/// How often this thread has allocated.
std::size_t allocationsHere() noexcept;

/// While it lives, allocations of more than `largest` bytes fail.
class AllocationLimit {
 public:
  explicit AllocationLimit(std::size_t largest) noexcept;
  ~AllocationLimit();
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;
};

/// Lets one allocation fail: the first for 0, the second for 1, of whatever thread.
class FailingAllocation {
 public:
  explicit FailingAllocation(int which) noexcept;
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;
  bool happened() const noexcept;
};

}  // namespace unisono::test

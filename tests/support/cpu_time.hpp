// Processor time, for tests of how work grows: unlike the clock's it does not depend on what else
// the machine does.
#pragma once

#include <ctime>

namespace unisono::test {

/// Seconds that the calling thread has computed.
inline double cpuSeconds() noexcept {
  timespec spent{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + 1e-9 * static_cast<double>(spent.tv_nsec);
}

}  // namespace unisono::test

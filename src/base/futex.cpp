#include "base/futex.hpp"

#include <algorithm>
#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace unisono {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
              std::atomic<std::uint32_t>::is_always_lock_free);

void futexWait(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
               Milliseconds most) noexcept {
  const Milliseconds slice = std::clamp(most, Milliseconds(0), kLongestSleep);
  const timespec duration{.tv_sec = slice.count() / 1000,
                          .tv_nsec = (slice.count() % 1000) * 1'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &duration, nullptr, 0);
}

void futexWakeAll(const std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace unisono

// Futex: sleeping on a word that several processes share.
//
// Not std::atomic::wait: libstdc++ 12 waits on a process-private futex, which another process
// cannot wake.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.hpp"

namespace unisono {

/// Sleeps while `word` is `seen`, no longer than `most`. May end early: the caller looks again.
void futexWait(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
               Milliseconds most) noexcept;

/// Wakes all who sleep on `word`, in every process that maps it.
void futexWakeAll(const std::atomic<std::uint32_t>& word) noexcept;

/// Tells the core that this thread only looks at a word again and again.
inline void cpuRelax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace unisono

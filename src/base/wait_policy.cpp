#include "base/wait_policy.hpp"

#include <algorithm>
#include <sched.h>

#include "base/spin.hpp"

namespace unisono {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds kFirstStay = std::chrono::milliseconds(50);
constexpr nanoseconds kLongestStay = std::chrono::seconds(2);
constexpr microseconds kRoomySpin{40};
constexpr nanoseconds kPause{20};  // of one look and one pause, on current processors
constexpr int kCrowdedSpins = 20;

// The scheduler treats all groups of a process alike, so they share what was learnt of it.
constinit std::atomic<std::int64_t> sleepUntil{0};  // ns of the clock
constinit std::atomic<std::int64_t> stay{0};        // ns; 0: no stranger in sight

std::int64_t count(TimePoint time) noexcept {
  return std::chrono::duration_cast<nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

WaitPolicy::WaitPolicy(int ranks, int cores)
    : crowded_(ranks > cores),
      spins_(crowded_ ? kCrowdedSpins : static_cast<int>(spinTime(kRoomySpin) / kPause)),
      mostYields_(8 * ranks / std::max(cores, 1)) {}

void WaitPolicy::yield() noexcept {
  ::sched_yield();
}

bool WaitPolicy::sleepsAtOnce() noexcept {
  const std::int64_t until = sleepUntil.load(std::memory_order_relaxed);
  return until != 0 && count(systemClock().now()) < until;
}

void WaitPolicy::noteStranger(TimePoint now) noexcept {
  const std::int64_t last = stay.load(std::memory_order_relaxed);
  const std::int64_t next =
      last == 0 ? kFirstStay.count() : std::min(2 * last, kLongestStay.count());
  stay.store(next, std::memory_order_relaxed);
  sleepUntil.store(count(now) + next, std::memory_order_relaxed);
}

void WaitPolicy::quiet() noexcept {
  const std::int64_t last = stay.load(std::memory_order_relaxed);
  if (last != 0) {
    stay.store(last > 64 ? last - last / 64 : 0, std::memory_order_relaxed);
  }
}

}  // namespace unisono

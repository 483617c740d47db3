// Bounds: how late a call may end, as tests assert it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <thread>

#include "base/clock.hpp"

namespace unisono::test {

/// The promise: a call with `timeout` takes max(50 ms, 1 %) longer at most. Proofs judge it.
inline Milliseconds promisedEnd(Milliseconds timeout) {
  return timeout + std::max(Milliseconds(50), timeout / 100);
}

/// What tests, which share their machine with others, allow: ten times as much on top.
inline Milliseconds latestEnd(Milliseconds timeout) {
  return timeout + 10 * (promisedEnd(timeout) - timeout);
}

/// Measures what the machine takes away: how much later than it should a thread has been woken, all
/// in all, that does nothing but sleep.
class Stalls {
 public:
  Stalls() : sleeper_([this](const std::stop_token& stop) { sleep(stop); }) {}
  Milliseconds soFar() const { return std::chrono::duration_cast<Milliseconds>(late_.load()); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Milliseconds kNap{5};

  void sleep(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto due = Clock::now() + kNap;
      std::this_thread::sleep_for(kNap);
      late_ = late_.load() + (Clock::now() - due);
    }
  }

  std::atomic<Clock::duration> late_{Clock::duration(0)};
  std::jthread sleeper_;  // last: it uses the other
};

/// Measures a call that is to give up after `timeout`: not earlier, and not much later than the
/// machine lets it.
class EndsInTime {
 public:
  explicit EndsInTime(Milliseconds timeout)
      : timeout_(timeout), start_(std::chrono::steady_clock::now()) {}
  ~EndsInTime() {
    const auto took = std::chrono::steady_clock::now() - start_;
    EXPECT_GE(took, timeout_) << "it gave up early";
    EXPECT_LE(took, latestEnd(timeout_) + stalls_.soFar())
        << "it took " << std::chrono::duration_cast<Milliseconds>(took).count() << " ms";
  }
  EndsInTime(const EndsInTime&) = delete;
  EndsInTime& operator=(const EndsInTime&) = delete;

 private:
  const Milliseconds timeout_;
  const std::chrono::steady_clock::time_point start_;
  const Stalls stalls_;
};

}  // namespace unisono::test

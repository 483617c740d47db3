// Bounds: how late a call may end, as tests assert it.
#pragma once

#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>

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

/// Measures a call that is to give up after `timeout`: not earlier, and not much later.
class EndsInTime {
 public:
  explicit EndsInTime(Milliseconds timeout)
      : timeout_(timeout), start_(std::chrono::steady_clock::now()) {}
  ~EndsInTime() {
    const auto took = std::chrono::steady_clock::now() - start_;
    EXPECT_GE(took, timeout_) << "it gave up early";
    EXPECT_LE(took, latestEnd(timeout_))
        << "it took " << std::chrono::duration_cast<Milliseconds>(took).count() << " ms";
  }
  EndsInTime(const EndsInTime&) = delete;
  EndsInTime& operator=(const EndsInTime&) = delete;

 private:
  const Milliseconds timeout_;
  const std::chrono::steady_clock::time_point start_;
};

}  // namespace unisono::test

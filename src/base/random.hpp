// Rng: random numbers that tests and simulations can replace, and the back-off built on them.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.hpp"

namespace unisono {

/// A source of random 64-bit numbers.
class Rng {
 public:
  virtual ~Rng() = default;
  virtual std::uint64_t next() noexcept = 0;

  /// Uniform in [0, 1).
  double unit() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
};

/// Reproducible numbers from a seed (SplitMix64). Used by one thread at a time.
class SeededRng final : public Rng {
 public:
  explicit SeededRng(std::uint64_t seed) noexcept : state_(seed) {}
  std::uint64_t next() noexcept override;

 private:
  std::uint64_t state_;
};

/// A seed from the kernel.
std::uint64_t randomSeed() noexcept;

/// A random name of 32 hexadecimal digits.
std::string randomId();

/// Growing pauses between attempts, spread so that many clients do not return together.
class Backoff {
 public:
  struct Options {
    Milliseconds initial = Milliseconds(10);
    double multiplier = 2.0;
    double spread = 0.5;  // each pause is drawn from its length * [1 - spread, 1 + spread]
    Milliseconds longest = std::chrono::seconds(1);
  };

  explicit Backoff(Rng& rng) : Backoff(Options{}, rng) {}
  Backoff(Options options, Rng& rng);

  /// The next pause; the length before spreading grows up to `longest`.
  Milliseconds next() noexcept;

  /// Starts again from the initial pause.
  void reset() noexcept { length_ = options_.initial; }

 private:
  const Options options_;
  Rng& rng_;
  Milliseconds length_;
};

}  // namespace unisono

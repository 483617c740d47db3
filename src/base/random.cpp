#include "base/random.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <sys/random.h>

#include "base/check.hpp"

namespace unisono {
namespace {

/// `length` times `factor`, at most `most`. Compared before rounding: what does not fit into
/// 64 bits must not come out negative.
Milliseconds scaled(Milliseconds length, double factor, Milliseconds most) noexcept {
  const double product = static_cast<double>(length.count()) * factor;
  return product < static_cast<double>(most.count()) ? Milliseconds(std::llround(product)) : most;
}

}  // namespace

std::uint64_t SeededRng::next() noexcept {
  state_ += 0x9e3779b97f4a7c15U;
  std::uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31);
}

std::uint64_t randomSeed() noexcept {
  std::uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed) {
    // Early boot: the time spreads clients well enough, and nothing secret depends on it.
    seed = static_cast<std::uint64_t>(systemClock().now().time_since_epoch().count());
  }
  return seed;
}

Backoff::Backoff(Options options, Rng& rng)
    : options_(options), rng_(rng), length_(options.initial) {
  UNISONO_CHECK(options.initial.count() > 0 && options.multiplier >= 1.0 && options.spread >= 0.0 &&
                    options.spread <= 1.0 && options.longest >= options.initial,
                "back-off options are out of range");
}

Milliseconds Backoff::next() noexcept {
  const double factor = 1.0 - options_.spread + 2.0 * options_.spread * rng_.unit();
  const Milliseconds pause = scaled(length_, factor, Milliseconds::max());
  length_ = scaled(length_, options_.multiplier, options_.longest);
  return std::max(pause, Milliseconds(1));
}

std::string randomId() {
  return fmt::format("{:016x}{:016x}", randomSeed(), randomSeed());
}

}  // namespace unisono

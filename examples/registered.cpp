// Memory that the other ranks reach where it is: nothing is copied on the way.
//
//   examples/ranks.sh 2 build/release/bin/example_registered
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <span>
#include <vector>

#include "unisono/unisono.hpp"

namespace {

constexpr std::size_t kCount = 1'000'000;

/// Milliseconds for ten sums of `values`.
double timeOfSums(unisono::Group& world, std::span<float> values) {
  world.barrier();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) {
    std::fill(values.begin(), values.end(), 1.0F);
    world.allReduce(values);
  }
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

int main() {
  try {
    unisono::Group world = unisono::init();

    std::vector<float> ordinary(kCount);
    const unisono::Tensor tensor = world.allocate(kCount);  // float32, all 0
    const std::span<float> registered(tensor.dataAs<float>(), kCount);

    const double copied = timeOfSums(world, ordinary);
    const double inPlace = timeOfSums(world, registered);
    std::printf("rank %d of %d: every number is %g; %.1f ms by copying, %.1f ms in place\n",
                world.rank(), world.size(), static_cast<double>(registered[kCount - 1]), copied,
                inPlace);
    return 0;
  } catch (const unisono::DistError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

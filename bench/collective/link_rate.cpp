// How long an all_reduce of many bytes takes, for scripts/prove.sh tcp-link.
//
//   RANK=… WORLD_SIZE=… MASTER_ADDR=… MASTER_PORT=… link_rate BYTES COUNT
//
// Rank 0 prints the seconds of the slowest rank: the median of all, the least, the most.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "unisono/unisono.hpp"

namespace {

/// Of the slowest rank.
double timeOne(unisono::Group& world, std::vector<float>& data) {
  std::fill(data.begin(), data.end(), 1.0F);
  world.barrier();
  const auto begin = std::chrono::steady_clock::now();
  world.allReduce(data);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  double slowest[1] = {took.count()};
  world.allReduce(std::span(slowest), {.op = unisono::ReduceOp::MAX});
  return slowest[0];
}

bool isRight(const unisono::Group& world, const std::vector<float>& data) {
  const auto sum = static_cast<float>(world.size());
  return std::all_of(data.begin(), data.end(), [&](float each) { return each == sum; });
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  const int count = argc > 2 ? std::atoi(argv[2]) : 0;
  if (bytes < sizeof(float) || count < 1) {
    std::fprintf(stderr, "call: link_rate BYTES COUNT\n");
    return 2;
  }
  try {
    unisono::Group world = unisono::init();
    std::vector<float> data(bytes / sizeof(float));
    timeOne(world, data);  // connects
    std::vector<double> seconds;
    bool right = true;
    for (int i = 0; i < count; ++i) {
      seconds.push_back(timeOne(world, data));
      right = right && isRight(world, data);
    }
    std::sort(seconds.begin(), seconds.end());
    if (world.rank() == 0) {
      std::printf("%.6f %.6f %.6f\n", seconds[seconds.size() / 2], seconds.front(), seconds.back());
    }
    if (!right) {
      std::fprintf(stderr, "rank %d has a wrong result\n", world.rank());
    }
    return right ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

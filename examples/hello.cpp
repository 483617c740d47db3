// The smallest group: every rank gives a number, and all get the sum.
//
//   for RANK in 0 1 2; do
//     RANK=$RANK WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 example_hello &
//   done; wait
#include <cstdio>
#include <vector>

#include "unisono/unisono.hpp"

int main() {
  try {
    unisono::Group world = unisono::init();  // from RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT

    std::vector<float> numbers = {1.0F, static_cast<float>(world.rank())};
    world.allReduce(numbers);

    std::printf("rank %d of %d: the ranks add up to %g\n", world.rank(), world.size(),
                static_cast<double>(numbers[1]));
    return 0;
  } catch (const unisono::DistError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

// Messages from rank to rank: a list goes round, and everybody adds its number.
//
//   examples/ranks.sh 4 build/release/bin/example_messages
#include <cstdio>
#include <vector>

#include "unisono/unisono.hpp"

int main() {
  try {
    unisono::Group world = unisono::init();
    const int next = (world.rank() + 1) % world.size();
    const int before = (world.rank() + world.size() - 1) % world.size();

    std::vector<int> list(static_cast<std::size_t>(world.size()), -1);
    if (world.rank() > 0) {
      world.recv(list, before);
    }
    list[static_cast<std::size_t>(world.rank())] = world.rank() * world.rank();
    world.send(list, next);
    if (world.rank() == 0) {
      world.recv(list, before);
      std::printf("back at rank 0 with");
      for (const int number : list) {
        std::printf(" %d", number);
      }
      std::printf("\n");
    }
    return 0;
  } catch (const unisono::DistError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

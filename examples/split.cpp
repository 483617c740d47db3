// Groups out of a group: the ranks as a grid, with a group for every row and every column.
//
//   examples/ranks.sh 6 build/release/bin/example_split
#include <array>
#include <cstdio>

#include "unisono/unisono.hpp"

int main() {
  try {
    constexpr int kColumns = 3;
    unisono::Group world = unisono::init();

    // Everybody calls it; those of one color are together.
    unisono::Group row = world.split(world.rank() / kColumns).value();
    unisono::Group column = world.split(world.rank() % kColumns).value();

    std::array<int, 1> inRow = {world.rank()};
    std::array<int, 1> inColumn = {world.rank()};
    row.allReduce(inRow);
    column.allReduce(inColumn);

    std::printf("rank %d: its row of %d adds up to %d, its column of %d to %d\n", world.rank(),
                row.size(), inRow[0], column.size(), inColumn[0]);
    return 0;
  } catch (const unisono::DistError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

// Computing and communicating at once: each piece is summed while the next one is computed.
//
//   examples/ranks.sh 2 build/release/bin/example_overlap
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "unisono/unisono.hpp"

namespace {

constexpr int kPieces = 8;
using Piece = std::vector<float>;

/// What takes time in a real program.
Piece compute(int piece, int rank) {
  Piece values(100'000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::floor(std::sqrt(static_cast<float>(i))) + static_cast<float>(piece * rank);
  }
  return values;
}

}  // namespace

int main() {
  try {
    unisono::Group world = unisono::init();

    std::array<Piece, kPieces> pieces;
    std::vector<unisono::WorkPtr> underWay;
    for (int i = 0; i < kPieces; ++i) {
      Piece& piece = pieces[static_cast<std::size_t>(i)];
      piece = compute(i, world.rank());
      underWay.push_back(world.allReduce(piece, {.async = true}));  // returns at once
    }
    for (const unisono::WorkPtr& work : underWay) {
      work->wait();  // throws what the operation failed with
    }

    std::printf("rank %d of %d: the first numbers of %d pieces add up to", world.rank(),
                world.size(), kPieces);
    for (const Piece& piece : pieces) {
      std::printf(" %g", static_cast<double>(piece[0]));
    }
    std::printf("\n");
    return 0;
  } catch (const unisono::DistError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

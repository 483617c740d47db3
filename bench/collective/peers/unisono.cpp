// The program of unisono's ranks in unisono_compare.
#include "bench/collective/peers/unisono.hpp"

#include <cstdio>

/// With a word behind it, vectors lie in memory that unisono has allocated.
int main(int argc, char** /*argv*/) {
  try {
    unisono::bench::UnisonoRank rank(unisono::init(), argc > 1);
    return unisono::bench::serveBoard(rank);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

// Blocks that tests move between ranks, and lists of ranks.
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace unisono::test {

using Bytes = std::vector<std::byte>;

/// What rank `from` gives to rank `to`; a byte of it depends on both and on its place.
inline Bytes block(int from, int to, std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] =
        static_cast<std::byte>(static_cast<std::size_t>(from * 31 + to * 7) + i * 3 + i / 251);
  }
  return bytes;
}

inline std::vector<int> everybody(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace unisono::test

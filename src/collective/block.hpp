// Blocks of bytes, as algorithms give and take them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

namespace unisono {

using ConstBlock = std::span<const std::byte>;
using Block = std::span<std::byte>;

/// The bytes of the largest of `blocks`.
template <typename Blocks>
std::size_t largestBlock(const Blocks& blocks) noexcept {
  std::size_t largest = 0;
  for (const auto& block : blocks) {
    largest = std::max(largest, block.size());
  }
  return largest;
}

/// The bytes of all of them.
template <typename Blocks>
std::size_t totalOf(const Blocks& blocks) noexcept {
  std::size_t total = 0;
  for (const auto& block : blocks) {
    total += block.size();
  }
  return total;
}

inline void copyOwnBlock(Block to, ConstBlock from) {
  // In place: a rank's own block often is where it goes.
  if (!to.empty() && to.data() != from.data()) {
    std::memmove(to.data(), from.data(), to.size());
  }
}

}  // namespace unisono

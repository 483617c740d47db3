// Patterns: who talks to whom, and about which share. Pure arithmetic.
#pragma once

#include <bit>
#include <cstddef>

#include "collective/block.hpp"
#include "collective/shares.hpp"

namespace unisono::links {

/// `data` cut into one share for each rank, at elements of `width` bytes.
template <typename BlockType>
class Shares {
 public:
  Shares(BlockType data, int ranks, std::size_t width) noexcept
      : data_(data), ranks_(ranks), width_(width) {}

  BlockType operator[](int rank) const noexcept { return between(rank, rank + 1); }
  /// Those of ranks `from` to `to` - 1, which lie one after the other.
  BlockType between(int from, int to) const noexcept {
    const std::size_t begin = beginOf(from);
    return data_.subspan(begin, beginOf(to) - begin);
  }

 private:
  std::size_t beginOf(int rank) const noexcept {
    return rank == ranks_ ? data_.size() : shareOf(data_.size(), ranks_, rank, width_).begin;
  }

  BlockType data_;
  int ranks_;
  std::size_t width_;
};

/// Ranks in a circle.
struct Ring {
  int rank;
  int size;

  int next() const noexcept { return after(1); }
  int previous() const noexcept { return after(-1); }
  /// The rank `distance` places further on; no further back than all around.
  int after(int distance) const noexcept { return (rank + distance + size) % size; }
};

/// The corners of a cube, as many as fit: where ranks are no power of two, of the first few each
/// pair has one corner, and its even rank stands there for both. Corners are in the order of the
/// ranks, so that neighbours along one edge after the other are neighbouring groups of ranks.
struct Cube {
  int rank;
  int size;

  int corners() const noexcept {
    return static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  }
  bool isPaired() const noexcept { return rank < 2 * (size - corners()); }
  /// Whether another rank stands for this one.
  bool isGuest() const noexcept { return isPaired() && rank % 2 == 1; }
  int partner() const noexcept { return rank ^ 1; }
  int corner() const noexcept { return isPaired() ? rank / 2 : rank - (size - corners()); }
  int rankAt(int corner) const noexcept {
    const int pairs = size - corners();
    return corner < pairs ? 2 * corner : corner + pairs;
  }
};

/// A binomial tree: rank `root` is its root, the ranks after it, around the ring, follow in order.
/// A node's parent has one bit less: the lowest.
struct Tree {
  int rank;
  int size;
  int root;

  int place() const noexcept { return (rank - root + size) % size; }
  int rankAt(int place) const noexcept { return (place + root) % size; }
  bool isRoot() const noexcept { return rank == root; }
  int parent() const noexcept { return rankAt(place() & (place() - 1)); }
  /// Children are at place() + 1, 2, 4, … as long as this is less than span() and they exist. The
  /// subtree of child 2^k has the 2^k places from there on, if there are so many.
  int span() const noexcept { return isRoot() ? size : place() & -place(); }
  bool hasChild(int distance) const noexcept {
    return distance < span() && place() + distance < size;
  }
};

}  // namespace unisono::links

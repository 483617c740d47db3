// Sum of sparse tensors: pure arithmetic, no communication.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "unisono/tensor/sparse.hpp"

namespace unisono {

/// What one rank gives, in C order: indices [sparse dimensions, entries], values [entries, ...].
struct SparsePart {
  const std::byte* indices = nullptr;  // int64
  const std::byte* values = nullptr;
  std::size_t entries = 0;
};

/// The sum of `parts`, in memory of its own: every place once, in ascending order. Values of one
/// place are added in the order of the parts, and within a part as they come, and rounded once; so
/// the bits do not depend on who adds. `sizes` and `sparseDims` are those of all parts.
SparseTensor sumSparse(std::span<const SparsePart> parts, DType type, const Dims& sizes,
                       std::size_t sparseDims);

/// An index that is no index of its dimension.
struct WrongIndex {
  std::int64_t dimension = -1;  // -1: there is none
  std::int64_t index = 0;
};
WrongIndex findWrongIndex(const SparsePart& part, std::span<const std::int64_t> sparseSizes);

}  // namespace unisono

// SparseTensor: the coordinates of elements that are not zero, and those elements.
#pragma once

#include "unisono/tensor/tensor.hpp"

namespace unisono {

/// In the coordinate form of PyTorch (COO). The same coordinates may occur several times: their
/// values then add up.
struct SparseTensor {
  static constexpr std::size_t kMostSparseDims = 4;
  static constexpr std::size_t kMostDenseDims = 4;

  Tensor indices;  // int64[sparse dimensions, n]
  Tensor values;   // [n, dense dimensions...]
  Dims sizes;      // of the whole: sparse dimensions first
};

}  // namespace unisono

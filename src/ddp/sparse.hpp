// Sparse gradients: they have no place in a row, and are reduced one by one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "unisono/ddp/params.hpp"
#include "unisono/group/group.hpp"
#include "unisono/tensor/sparse.hpp"

namespace unisono::ddp {

/// Throws UsageError unless there is a gradient, of the type and the sizes of its parameter.
void checkSparse(const Group& group, const Param& param, std::size_t index,
                 const SparseTensor& gradient);

/// Starts the sum over all ranks, of which averageOfSum() makes an average over `ranks`, and
/// returns at once. The gradient is left alone, and must not change until the end.
Future startSparseSum(const Group& group, const SparseTensor& gradient, int ranks);

/// A gradient that adds nothing, whose first `sparseDims` dimensions are sparse.
SparseTensor noEntries(const Tensor& param, std::int64_t sparseDims);

/// The average, in memory of its own: asked again, `sum` gives the same.
SparseTensor averageOfSum(const Future& sum, const Tensor& param, int ranks);

}  // namespace unisono::ddp

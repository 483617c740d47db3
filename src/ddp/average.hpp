// The average of a row over all ranks, in place.
#pragma once

#include "unisono/group/group.hpp"

namespace unisono::ddp {

/// How elements of `type` are averaged over `ranks` ranks.
inline ReduceOp averageOf(DType type, int ranks) noexcept {
  // The sum of few large values may be more than a float16 holds, so these are divided first.
  // Others are divided last, which rounds once and needs no pass over them.
  return type == DType::FLOAT16 ? ReduceOp::preMulSum(1.0 / ranks) : ReduceOp(ReduceOp::AVG);
}

/// Starts it, and returns at once.
inline Future startAverage(const Group& group, const Tensor& row) {
  return group.processGroup()
      .allreduce(row, {.reduceOp = averageOf(row.dtype(), group.size())})
      ->getFuture();
}

/// The same, but the sum is divided by `ranks`, which all ranks say alike.
Future startAverage(const Group& group, const Tensor& row, int ranks);

/// Divides every element of a row, each rounded once.
void divide(const Tensor& row, int by);

}  // namespace unisono::ddp

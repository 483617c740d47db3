#include "ddp/average.hpp"

#include <cstddef>
#include <span>

#include "reduction/reduction.hpp"

namespace unisono::ddp {

Future startAverage(const Group& group, const Tensor& row, int ranks) {
  if (ranks == group.size()) {
    return startAverage(group, row);
  }
  divide(row, ranks);  // first: what the backend divides by is the size of the group
  return group.processGroup().allreduce(row)->getFuture();
}

void divide(const Tensor& row, int by) {
  if (row.numel() == 0) {
    return;  // there may be no memory at all
  }
  auto* bytes = row.dataAs<std::byte>();
  const std::byte* source = bytes;
  Reduction::of(row.dtype(), ReduceOp::AVG, by)
      .reduce(bytes, std::span(&source, 1), static_cast<std::size_t>(row.numel()));
}

}  // namespace unisono::ddp

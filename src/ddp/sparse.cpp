#include "ddp/sparse.hpp"

#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "ddp/average.hpp"
#include "ddp/memory.hpp"

namespace unisono::ddp {
namespace {

/// A row of the same elements, divided, each rounded once.
Tensor divided(const Tensor& values, int by) {
  const Tensor row = ordinaryMemory(values.numel(), values.dtype());
  const Tensor result(row.data(), row.dtype(), values.sizes(), row.device(), row.keepAlive());
  copyElements(result, values);
  divide(result, by);
  return result;
}

/// As of dense gradients: the sum of few large values may be more than a float16 holds.
bool isDividedFirst(DType type) noexcept {
  return type == DType::FLOAT16;
}

/// "float32[9, 2]", of the whole.
std::string shapeOf(const SparseTensor& gradient) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : gradient.sizes) {
    sizes.push_back(str(size));
  }
  return str(name(gradient.values.dtype()), "[", join(sizes, ", "), "]");
}

}  // namespace

void checkSparse(const Group& group, const Param& param, std::size_t index,
                 const SparseTensor& gradient) {
  const auto refuse = [&](const std::string& why, const std::string& hint) {
    throw UsageError({.reason = Reason::USAGE,
                      .what = str("the gradient of ", describe(param, index), " is refused: ", why),
                      .hint = hint,
                      .rank = group.rank(),
                      .world = group.size()});
  };
  if (!gradient.indices.defined() || !gradient.values.defined()) {
    refuse("Expected sparse gradient to be defined.",
           "give the parameter a gradient in every step, if need be one without entries: sparse "
           "ones cannot be unused");
  }
  const Tensor& indices = gradient.indices;
  if (indices.dtype() != DType::INT64 || indices.sizes().size() != 2 ||
      indices.sizes()[0] > static_cast<std::int64_t>(param.value.sizes().size())) {
    refuse(str("its indices are ", indices.describe()),
           "they are int64, a row for each sparse dimension, a column for each entry");
  }
  if (gradient.values.dtype() != param.value.dtype() || gradient.sizes != param.value.sizes()) {
    refuse(str("Expected ", param.value.describe(), ", got ", shapeOf(gradient), " in sparse form"),
           "a gradient has the type of its parameter, and the sizes of the whole");
  }
}

Future startSparseSum(const Group& group, const SparseTensor& gradient, int ranks) {
  SparseTensor given = gradient;
  if (isDividedFirst(given.values.dtype())) {
    given.values = divided(given.values, ranks);
  }
  return group.processGroup().allreduceSparse(std::move(given))->getFuture();
}

SparseTensor noEntries(const Tensor& param, std::int64_t sparseDims) {
  std::vector<std::int64_t> sizes = {0};
  const std::span<const std::int64_t> all = param.sizes().span();
  const std::span<const std::int64_t> dense = all.subspan(static_cast<std::size_t>(sparseDims));
  sizes.insert(sizes.end(), dense.begin(), dense.end());
  return {Tensor(nullptr, DType::INT64, {sparseDims, 0}),
          Tensor(nullptr, param.dtype(), Dims(std::span<const std::int64_t>(sizes))),
          param.sizes()};
}

SparseTensor averageOfSum(const Future& sum, const Tensor& param, int ranks) {
  const TensorList& parts = sum.value();
  UNISONO_CHECK(parts.size() == 2, "a sparse all_reduce gave ", parts.size(),
                " tensors instead of indices and values");
  const bool isLeft = !isDividedFirst(param.dtype());
  return {parts[0], isLeft ? divided(parts[1], ranks) : parts[1], param.sizes()};
}

}  // namespace unisono::ddp

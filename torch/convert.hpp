// PyTorch's tensors and reductions as ours: views of the same memory, nothing is copied.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <utility>
#include <vector>

#include "unisono/base/error.hpp"
#include "unisono/reduction/reduce_op.hpp"
#include "unisono/tensor/tensor.hpp"
#include "unisono/work/collective_api.hpp"

namespace unisono::plugin {

using TorchTensors = std::vector<at::Tensor>;

/// What an operation does with its elements: to copy them, only their size matters.
enum class Use : std::uint8_t { COPIES, REDUCES };

[[noreturn]] inline void refuse(std::string what, std::string hint = {}) {
  throw UsageError({.reason = Reason::USAGE, .what = std::move(what), .hint = std::move(hint)});
}

/// A type as wide as one that we have no name for.
inline DType dtypeOfWidth(at::ScalarType type) {
  switch (c10::elementSize(type)) {
    case 1:
      return DType::UINT8;
    case 2:
      return DType::UINT16;
    case 4:
      return DType::UINT32;
    default:
      return DType::UINT64;
  }
}

inline DType dtypeOf(at::ScalarType type, Use use) {
  switch (type) {
    case at::kFloat:
      return DType::FLOAT32;
    case at::kDouble:
      return DType::FLOAT64;
    case at::kHalf:
      return DType::FLOAT16;
    case at::kBFloat16:
      return DType::BFLOAT16;
    case at::kFloat8_e4m3fn:
      return DType::FLOAT8_E4M3;
    case at::kFloat8_e5m2:
      return DType::FLOAT8_E5M2;
    case at::kChar:
      return DType::INT8;
    case at::kShort:
      return DType::INT16;
    case at::kInt:
      return DType::INT32;
    case at::kLong:
      return DType::INT64;
    case at::kByte:
      return DType::UINT8;
    case at::kUInt16:
      return DType::UINT16;
    case at::kUInt32:
      return DType::UINT32;
    case at::kUInt64:
      return DType::UINT64;
    case at::kBool:
      return DType::BOOL;
    case at::kComplexFloat:
      return DType::COMPLEX64;
    case at::kComplexDouble:
      return DType::COMPLEX128;
    default:
      break;
  }
  const std::string name = c10::toString(type);
  if (use == Use::REDUCES) {
    refuse("Invalid scalar type: " + name + " cannot be reduced", "convert the tensor first");
  }
  if (c10::isQIntType(type) || c10::elementSize(type) > 8) {
    refuse("Invalid scalar type: " + name);
  }
  return dtypeOfWidth(type);
}

/// A view of `tensor`, which it keeps alive.
inline Tensor viewOf(const at::Tensor& tensor, Use use) {
  if (!tensor.defined()) {
    refuse("a tensor is undefined");
  }
  if (tensor.layout() != at::kStrided) {
    refuse("only supports dense tensors");
  }
  if (!tensor.is_cpu()) {
    refuse("unsupported device type " + tensor.device().str(),
           "give a tensor in the memory of the CPU");
  }
  if (tensor.is_conj() || tensor.is_neg()) {
    refuse("a conjugated or negated view is not what its memory says",
           "use resolve_conj() and resolve_neg()");
  }
  const auto dims = [](at::IntArrayRef values) {
    return Dims(std::span<const std::int64_t>(values.data(), values.size()));
  };
  const DType type = dtypeOf(tensor.scalar_type(), use);
  void* const data = tensor.numel() == 0 ? nullptr : tensor.data_ptr();
  auto kept = std::make_shared<at::Tensor>(tensor);
  if (tensor.is_contiguous()) {
    return {data, type, dims(tensor.sizes()), Device{}, std::move(kept)};
  }
  return {data, type, dims(tensor.sizes()), dims(tensor.strides()), Device{}, std::move(kept)};
}

inline TensorList viewsOf(const TorchTensors& tensors, Use use = Use::COPIES) {
  if (tensors.size() == 1) {
    return viewOf(tensors.front(), use);
  }
  std::vector<Tensor> views;
  views.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    views.push_back(viewOf(tensor, use));
  }
  return views;
}

inline TensorLists viewsOf(const std::vector<TorchTensors>& lists, Use use = Use::COPIES) {
  TensorLists views;
  for (const TorchTensors& list : lists) {
    views.push_back(viewsOf(list, use).toVector());
  }
  return views;
}

inline ReduceOp reductionOf(const c10d::ReduceOp& op) {
  const auto type = static_cast<RedOpType>(op.op_);
  if (type != RedOpType::PREMUL_SUM) {
    return type;
  }
  if (!op.supplement_) {
    refuse("PREMUL_SUM has no factor", "make it by ReduceOp.PREMUL_SUM(factor)");
  }
  const auto& more = static_cast<const c10d::PreMulSumSupplement&>(*op.supplement_);
  return ReduceOp::preMulSum(more.tensor_factor.defined() ? more.tensor_factor.item<double>()
                                                          : more.double_factor);
}

}  // namespace unisono::plugin

#include "backend/fake/fill_outputs.hpp"

#include <algorithm>
#include <cstring>

namespace unisono::detail {
namespace {

/// Where element `index` is, counted in C order.
std::byte* elementAt(const Tensor& tensor, std::int64_t index) {
  const auto width = static_cast<std::int64_t>(elementSize(tensor.dtype()));
  auto* const first = static_cast<std::byte*>(tensor.data());
  if (tensor.isContiguous()) {
    return first + index * width;
  }
  std::int64_t offset = 0;
  for (std::size_t i = tensor.sizes().size(); i-- > 0;) {
    offset += index % tensor.sizes()[i] * tensor.strides()[i];
    index /= tensor.sizes()[i];
  }
  return first + offset * width;
}

/// Elements `from`.. of one tensor to `to`.. of the other, `count` of them; memory that is not the
/// CPU's is left alone.
void copy(const Tensor& source, std::int64_t from, const Tensor& target, std::int64_t to,
          std::int64_t count) {
  if (source.device().type != DeviceType::CPU || target.device().type != DeviceType::CPU) {
    return;
  }
  const std::size_t width = elementSize(source.dtype());
  if (source.isContiguous() && target.isContiguous()) {
    if (count > 0) {
      // Moved, not copied: the own slot may be in place.
      std::memmove(elementAt(target, to), elementAt(source, from),
                   static_cast<std::size_t>(count) * width);
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::memmove(elementAt(target, to + i), elementAt(source, from + i), width);
  }
}

/// As much of `source` as fits.
void copyWhole(const Tensor& source, const Tensor& target) {
  copy(source, 0, target, 0, std::min(source.numel(), target.numel()));
}

/// outputs[…] in turn become inputs[0], inputs[1], …, inputs[0], …
void repeatInputs(const CollectiveArgs& args) {
  for (std::size_t i = 0; i < args.outputs.size(); ++i) {
    copyWhole(args.inputs[i % args.inputs.size()], args.outputs[i]);
  }
}

/// `output` becomes `input` again and again, as often as it fits.
void repeatInto(const Tensor& input, const Tensor& output) {
  for (std::int64_t to = 0; input.numel() > 0 && to < output.numel(); to += input.numel()) {
    copy(input, 0, output, to, std::min(input.numel(), output.numel() - to));
  }
}

}  // namespace

void fillOutputs(const CollectiveArgs& args, int rank) {
  switch (args.type) {
    case OpType::ALLGATHER:
    case OpType::ALLGATHER_COALESCED:
    case OpType::GATHER:
      return repeatInputs(args);
    case OpType::ALLGATHER_BASE:
    case OpType::ALLGATHER_INTO_TENSOR_COALESCED:
    case OpType::ALLTOALL_BASE:
    case OpType::ALLTOALL:
      for (std::size_t i = 0; i < args.outputs.size(); ++i) {
        repeatInto(args.inputs[i], args.outputs[i]);
      }
      return;
    case OpType::SCATTER:
    case OpType::REDUCE_SCATTER:
      if (!args.inputs.empty()) {
        copyWhole(args.inputs[static_cast<std::size_t>(rank)], args.outputs[0]);
      }
      return;
    case OpType::REDUCE_SCATTER_BASE:
    case OpType::REDUCE_SCATTER_TENSOR_COALESCED:
      for (std::size_t i = 0; i < args.outputs.size(); ++i) {
        const std::int64_t share = args.outputs[i].numel();
        copy(args.inputs[i], rank * share, args.outputs[i], 0, share);
      }
      return;
    default:  // in place, without outputs, or nothing to make up
      return;
  }
}

}  // namespace unisono::detail

#include "work/validate.hpp"

#include <algorithm>

#include "unisono/tensor/sparse.hpp"

#include "base/str.hpp"

namespace unisono::detail {
namespace {

void validateBroadcast(const Call& call) {
  const Tensors tensors = call.args.outputs;
  requireRoot(call);
  requireRootTensor(call, tensors);
  requireTypeAndSizes(call, tensors, tensors[0]);
  requireWritable(call, tensors, Twins::ALLOWED);
}

void requireNonEmpty(const Call& call, Tensors tensors) {
  if (tensors.empty()) {
    refuse(call, "requires non-empty tensor list");
  }
}

void validateAllreduce(const Call& call) {
  const Tensors tensors = call.args.outputs;
  requireNonEmpty(call, tensors);
  requireTypeAndSizes(call, tensors, tensors[0]);
  requireReducible(call, tensors[0].dtype());
  requireWritable(call, tensors, Twins::ALLOWED);
}

void validateAllreduceCoalesced(const Call& call) {
  const Tensors tensors = call.args.outputs;
  requireNonEmpty(call, tensors);
  for (const Tensor& tensor : tensors) {
    if (tensor.dtype() != tensors[0].dtype()) {
      refuse(call, str("tensors must all have the same type, not ", name(tensors[0].dtype()),
                       " and ", name(tensor.dtype())));
    }
  }
  requireOneDevice(call, tensors, tensors[0], "tensors must all be on the same device");
  requireReducible(call, tensors[0].dtype());
  requireCountable(call, tensors);
  requireWritable(call, tensors, Twins::ALLOWED);
}

void validateSparse(const Call& call) {
  const Tensors tensors = call.args.inputs;
  const std::vector<std::int64_t>& sizes = call.args.inputSplits;
  if (!(call.args.reduceOp == ReduceOp::SUM)) {
    refuse(call,
           "unsupported reduction operation (allreduce of sparse tensors only works with "
           "ReduceOp.SUM)");
  }
  if (tensors.size() != 2) {
    refuse(call, "takes the indices and the values of one sparse tensor");
  }
  const Tensor& indices = tensors[0];
  const Tensor& values = tensors[1];
  requireOneDevice(call, tensors, indices);
  const bool shaped = indices.dtype() == DType::INT64 && indices.sizes().size() == 2 &&
                      !values.sizes().empty() && values.sizes()[0] == indices.sizes()[1];
  if (!shaped) {
    refuse(call, str("indices ", indices.describe(), " and values ", values.describe(),
                     " are no sparse tensor: it has int64[dimensions, n] and [n, ...]"));
  }
  const auto sparse = static_cast<std::size_t>(indices.sizes()[0]);
  const std::size_t dense = values.sizes().size() - 1;
  if (sparse > SparseTensor::kMostSparseDims || dense > SparseTensor::kMostDenseDims) {
    refuse(call, str("a sparse tensor may have 4 sparse and 4 dense dimensions, not ", sparse,
                     " and ", dense));
  }
  const auto denseSizes = values.sizes().span().subspan(1);
  const bool whole = sizes.size() == sparse + dense &&
                     std::ranges::equal(denseSizes, std::span(sizes).last(dense));
  if (!whole) {
    refuse(call, str("values ", values.describe(), " do not fit a tensor of ", sizes.size(),
                     " dimensions, ", sparse, " of them sparse"));
  }
  for (const std::int64_t size : sizes) {
    if (size < 0) {
      refuse(call, str("a tensor cannot have the size ", size));
    }
  }
}

void validateReduce(const Call& call) {
  const Tensors tensors = call.args.outputs;
  requireRoot(call);
  requireRootTensor(call, tensors);
  if (tensors.size() != 1) {
    refuse(call, "requires a single-element tensor list");
  }
  requireReducible(call, tensors[0].dtype());
  requireWritable(call, tensors);
}

void requireOneEach(const Call& call) {
  if (call.args.inputs.size() != 1) {
    refuse(call, "requires a single-element input tensor list");
  }
  if (call.args.outputs.size() != 1) {
    refuse(call, "requires a single-element output tensor list");
  }
}

void requirePairs(const Call& call) {
  if (call.args.inputs.empty()) {
    refuse(call, "requires non-empty input tensor list");
  }
  if (call.args.inputs.size() != call.args.outputs.size()) {
    refuse(call, "requires input/output tensor lists to have the same length");
  }
}

/// Pairs of input and output; the coalesced forms have several.
void validateAllGatherSingle(const Call& call) {
  const Tensors inputs = call.args.inputs;
  const Tensors outputs = call.args.outputs;
  requireType(call, inputs, inputs[0]);
  requireType(call, outputs, inputs[0]);
  requireCountable(call, outputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    requireShares(call, inputs[i], outputs[i],
                  "output tensor size must be equal to world_size times input tensor size");
    requireOwnShare(call, inputs[i], outputs[i]);
  }
  requireWritable(call, outputs);
}

void validateReduceScatterSingle(const Call& call) {
  const Tensors inputs = call.args.inputs;
  const Tensors outputs = call.args.outputs;
  requireType(call, inputs, inputs[0]);
  requireType(call, outputs, inputs[0]);
  requireReducible(call, inputs[0].dtype());
  requireCountable(call, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    requireShares(call, outputs[i], inputs[i],
                  "input tensor must be the same size as output size times world size");
    requireOwnShare(call, outputs[i], inputs[i]);
  }
  requireWritable(call, outputs);
}

/// Rows are counted along the first dimension.
void requireSplits(const Call& call, const Tensor& tensor,
                   const std::vector<std::int64_t>& splits) {
  const std::int64_t rows = tensor.sizes().empty() ? 1 : tensor.sizes()[0];
  if (splits.empty()) {
    if (rows % call.size != 0) {
      refuse(call, str("Tensor's dim 0 does not divide equally across group size: ",
                       tensor.describe(), " and ", call.size, " ranks"));
    }
    return;
  }
  if (splits.size() != call.ranks()) {
    refuse(call, str("Number of tensor splits not equal to group size: ", splits.size(),
                     " splits and ", call.size, " ranks"));
  }
  std::int64_t sum = 0;
  for (const std::int64_t split : splits) {
    if (split < 0) {
      refuse(call, str("a split cannot have ", split, " rows"));
    }
    if (__builtin_add_overflow(sum, split, &sum)) {
      sum = -1;
      break;
    }
  }
  if (sum != rows) {
    refuse(call, str("Split sizes doesn't match total dim 0 size: the splits of ",
                     tensor.describe(), " have another number of rows"));
  }
}

void validateAllToAllSingle(const Call& call) {
  requireOneEach(call);
  const Tensor& input = call.args.inputs[0];
  const Tensor& output = call.args.outputs[0];
  requireOneDevice(call, {&output, 1}, input,
                   "output tensor and input tensor must be on the same type of device");
  if (!input.isContiguous()) {
    refuse(call, "Tensors must be contiguous", "give a contiguous copy of the input");
  }
  if (input.dtype() != output.dtype()) {
    refuse(call, str("input and output tensors must have the same type, not ", name(input.dtype()),
                     " and ", name(output.dtype())));
  }
  requireSplits(call, output, call.args.outputSplits);
  requireSplits(call, input, call.args.inputSplits);
  requireWritable(call, {&output, 1});
  requireApart(call, {&input, 1}, {&output, 1}, call.size == 1 ? 0 : kNone, 0);
}

void validateP2P(const Call& call) {
  const bool sends = call.args.type == OpType::SEND;
  const Tensors tensors = sends ? call.args.inputs : call.args.outputs;
  if (tensors.size() != 1) {
    refuse(call, str(opName(call.args.type), " takes a single tensor"));
  }
  if (!tensors[0].isContiguous()) {
    refuse(call, "input tensor has to be contiguous", "give a contiguous copy");
  }
  if (call.args.tag < 0) {
    refuse(call, str("Tag must be nonnegative, not ", call.args.tag));
  }
  const bool anybody = call.args.type == OpType::RECVANYSOURCE;
  if (!anybody && (call.args.peer < 0 || call.args.peer >= call.size)) {
    refuse(call, str("Invalid ", sends ? "destination" : "source", " rank: ", call.args.peer),
           str("ranks of this group are 0 to ", call.size - 1));
  }
}

}  // namespace

void validateCall(const Call& call) {
  requireDefined(call, call.args.inputs);
  requireDefined(call, call.args.outputs);
  if (call.args.timeout < kUnsetTimeout) {
    refuse(call, str("an operation cannot have the timeout ", call.args.timeout.count(), "ms"));
  }
  switch (call.args.type) {
    case OpType::BROADCAST:
      return validateBroadcast(call);
    case OpType::ALLREDUCE:
      return validateAllreduce(call);
    case OpType::ALLREDUCE_COALESCED:
      return validateAllreduceCoalesced(call);
    case OpType::ALLREDUCE_SPARSE:
      return validateSparse(call);
    case OpType::REDUCE:
      return validateReduce(call);
    case OpType::ALLGATHER:
      return validateAllgather(call);
    case OpType::ALLGATHER_BASE:
      requireOneEach(call);
      return validateAllGatherSingle(call);
    case OpType::ALLGATHER_INTO_TENSOR_COALESCED:
      requirePairs(call);
      return validateAllGatherSingle(call);
    case OpType::ALLGATHER_COALESCED:
      return validateAllgatherCoalesced(call);
    case OpType::GATHER:
      return validateGather(call);
    case OpType::SCATTER:
      return validateScatter(call);
    case OpType::REDUCE_SCATTER:
      return validateReduceScatter(call);
    case OpType::REDUCE_SCATTER_BASE:
      requireOneEach(call);
      return validateReduceScatterSingle(call);
    case OpType::REDUCE_SCATTER_TENSOR_COALESCED:
      requirePairs(call);
      return validateReduceScatterSingle(call);
    case OpType::ALLTOALL_BASE:
      return validateAllToAllSingle(call);
    case OpType::ALLTOALL:
      return validateAllToAll(call);
    case OpType::SEND:
    case OpType::RECV:
    case OpType::RECVANYSOURCE:
      return validateP2P(call);
    case OpType::BARRIER:
      return;
    case OpType::COALESCED:
    case OpType::UNKNOWN:
      break;
  }
  refuse(call, "it is no operation of a group");
}

}  // namespace unisono::detail

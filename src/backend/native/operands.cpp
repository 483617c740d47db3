#include "backend/native/operands.hpp"

#include "backend/native/monitored_barrier.hpp"
#include "base/str.hpp"
#include "reduction/copy.hpp"
#include "reduction/reduction.hpp"
#include "tensor/strided.hpp"

namespace unisono {
namespace {

bool isOneVector(const CollectiveArgs& args) noexcept {
  return args.type == OpType::ALLREDUCE_COALESCED;
}

}  // namespace

std::string describeCall(const Call& call) {
  const auto type = static_cast<OpType>(call.opType);
  if (type == OpType::BARRIER) {
    return std::string(call.root < 0 ? opName(type) : kMonitoredBarrier);
  }
  const std::string_view element =
      call.dtype < kDTypeCount ? name(static_cast<DType>(call.dtype)) : "?";
  const std::string_view opText = call.reduceOp <= static_cast<std::uint8_t>(RedOpType::UNUSED)
                                      ? name(static_cast<RedOpType>(call.reduceOp))
                                      : "?";
  const std::string reduction = isReduction(type) ? str(", ", opText) : "";
  const std::string root = call.root >= 0 ? str(", root ", call.root) : "";
  return str(opName(type), "(", element, "[", call.count, "]", reduction, root, ")");
}

ConstBlock contribution(const CollectiveArgs& args, const Tensor& tensor, Scratch& scratch) {
  const ConstBlock plain = readable(tensor, scratch);
  if (args.reduceOp != ReduceOp::PREMUL_SUM) {
    return plain;
  }
  std::byte* scaled = scratch.take(plain.size());
  scale(tensor.dtype(), scaled, plain.data(), static_cast<std::size_t>(tensor.numel()),
        args.reduceOp.factor());
  return {scaled, plain.size()};
}

Block packReduced(const CollectiveArgs& args, Scratch& scratch) {
  std::size_t bytes = 0;
  for (const Tensor& tensor : args.outputs) {
    bytes = isOneVector(args) ? bytes + tensor.bytes() : tensor.bytes();
  }
  const Block whole(scratch.take(bytes), bytes);
  std::size_t at = 0;
  std::vector<const std::byte*> local;
  for (const Tensor& tensor : args.outputs) {
    const ConstBlock block = contribution(args, tensor, scratch);
    if (isOneVector(args)) {
      copyBytes(whole.data() + at, block.data(), block.size());
      at += block.size();
    } else {
      local.push_back(block.data());
    }
  }
  if (!isOneVector(args)) {
    const DType type = args.outputs[0].dtype();
    const ReduceOp op = args.reduceOp == ReduceOp::AVG ? ReduceOp(ReduceOp::SUM) : args.reduceOp;
    Reduction::of(type, op, 1).reduce(whole.data(), local, bytes / elementSize(type));
  }
  return whole;
}

void unpackReduced(const CollectiveArgs& args, const std::byte* whole) {
  for (const Tensor& tensor : args.outputs) {
    unpack(tensor, whole);
    whole += isOneVector(args) ? tensor.bytes() : 0;
  }
}

Block packInputs(const CollectiveArgs& args, Scratch& scratch) {
  std::size_t bytes = 0;
  for (const Tensor& tensor : args.inputs) {
    bytes += tensor.bytes();
  }
  const Block whole(scratch.take(bytes), bytes);
  std::size_t at = 0;
  for (const Tensor& tensor : args.inputs) {
    pack(whole.data() + at, tensor);
    at += tensor.bytes();
  }
  return whole;
}

void unpackGathered(const CollectiveArgs& args, std::size_t ranks, const std::byte* all) {
  const std::size_t given = args.inputs.size();
  const std::size_t lists = args.type == OpType::ALLGATHER_COALESCED ? 1 : given;
  for (std::size_t list = 0; list < lists; ++list) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < ranks * given; ++i) {
      const Tensor& output = args.outputs[list * ranks * given + i];
      unpack(output, all + at);
      at += output.bytes();
    }
  }
}

}  // namespace unisono

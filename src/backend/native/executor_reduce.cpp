// The operations that reduce.
#include "backend/native/executor.hpp"
#include "backend/native/operands.hpp"
#include "collective/reduce_scatter.hpp"

namespace unisono {
namespace {

ConstBlock part(ConstBlock whole, std::size_t index, std::size_t size) noexcept {
  return whole.subspan(index * size, size);
}

}  // namespace

const Reduction& Executor::reductionOf(DType type, ReduceOp op) {
  if (type != reducedType_ || op != reducedBy_) [[unlikely]] {
    reduction_ = Reduction::of(type, op, arena_.size());
    reducedType_ = type;
    reducedBy_ = op.type();
  }
  return reduction_;
}

/// Picks and runs an algorithm: an operation of its own.
void Executor::runReduction(const CollectiveArgs& args, const AllreduceData& data,
                            const Reduction& reduction) {
  const bool all = data.taker == AllreduceData::kAll;
  const bool inPlace = all && data.in == data.out;
  const std::size_t bytes = inPlace ? data.elements * reduction.elementSize() : 0;
  const AllreduceAlgorithm& algorithm =
      selector_.allreduce({.bytes = data.elements * reduction.elementSize(),
                           .elementSize = reduction.elementSize(),
                           .ranks = arena_.size(),
                           .crowded = arena_.isCrowded()});
  begin(args, {.block = ConstBlock(data.in, bytes), .algorithm = algorithm.number});
  const bool done = arena_.isReachable() && allreduceDirect(arena_, data, reduction);
  if (data.elements > 0 && !done) {
    algorithm.run(arena_, data, reduction);
  }
  arena_.end(all && data.elements > 0);
}

void Executor::allreduce(const CollectiveArgs& args) {
  if (args.outputs.size() == 1) [[likely]] {
    allreduceOne(args, args.outputs[0]);
  } else {
    allreduceMany(args);
  }
}

void Executor::allreduceOne(const CollectiveArgs& args, const Tensor& tensor) {
  if (tensor.isContiguous() && args.reduceOp != ReduceOp::PREMUL_SUM) [[likely]] {
    auto* const where = tensor.dataAs<std::byte>();
    runReduction(args, {where, where, static_cast<std::size_t>(tensor.numel())},
                 reductionOf(tensor.dtype(), args.reduceOp));
    return;
  }
  allreduceStaged(args, tensor);
}

/// By way of scratch: what is given is not what lies in the tensor, or not in one piece.
void Executor::allreduceStaged(const CollectiveArgs& args, const Tensor& tensor) {
  const auto elements = static_cast<std::size_t>(tensor.numel());
  const OutputBlock output(tensor, scratch_);
  const ConstBlock in = contribution(args, tensor, scratch_);
  runReduction(args, {in.data(), output.block().data(), elements},
               reductionOf(tensor.dtype(), args.reduceOp));
  output.deliver();
}

void Executor::allreduceMany(const CollectiveArgs& args) {
  const DType type = args.outputs[0].dtype();
  const Block whole = packReduced(args, scratch_);
  runReduction(args, {whole.data(), whole.data(), whole.size() / elementSize(type)},
               reductionOf(type, args.reduceOp));
  unpackReduced(args, whole.data());
}

void Executor::reduce(const CollectiveArgs& args) {
  const Tensor& tensor = args.outputs[0];
  const Reduction& reduction = reductionOf(tensor.dtype(), args.reduceOp);
  const ConstBlock in = contribution(args, tensor, scratch_);
  const auto elements = static_cast<std::size_t>(tensor.numel());
  if (!isRoot(args)) {
    runReduction(args, {in.data(), nullptr, elements, args.root}, reduction);
    return;
  }
  const OutputBlock output(tensor, scratch_);
  runReduction(args, {in.data(), output.block().data(), elements, args.root}, reduction);
  output.deliver();
}

void Executor::reduceBlocks(const CollectiveArgs& args, std::span<const ConstBlock> give,
                            const Tensor& output, ConstBlock given) {
  const OutputBlock out(output, scratch_);
  const Reduction& reduction = reductionOf(output.dtype(), args.reduceOp);
  const bool lines = reduceScatterByLines({.bytes = largestBlock(give),
                                           .elementSize = reduction.elementSize(),
                                           .ranks = arena_.size(),
                                           .crowded = arena_.isCrowded()});
  begin(args, {.block = lines ? ConstBlock() : given});
  if (lines) {
    reduceScatterLines(arena_, give, out.block(), reduction);
  } else {
    reduceScatterSlots(arena_, give, out.block(), reduction);
  }
  arena_.end(true);
  out.deliver();
}

void Executor::reduceScatter(const CollectiveArgs& args) {
  std::vector<ConstBlock> give;
  for (const Tensor& tensor : args.inputs) {
    give.push_back(contribution(args, tensor, scratch_));
  }
  reduceBlocks(args, give, args.outputs[0]);
}

void Executor::reduceScatterSingle(const CollectiveArgs& args, const Tensor& output,
                                   const Tensor& input) {
  const ConstBlock whole = contribution(args, input, scratch_);
  for (std::size_t peer = 0; peer < ranks(); ++peer) {
    give_[peer] = part(whole, peer, output.bytes());
  }
  reduceBlocks(args, give_, output, whole);
}

}  // namespace unisono

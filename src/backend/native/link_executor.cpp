#include "backend/native/link_executor.hpp"

#include <new>
#include <string>
#include <utility>

#include "backend/native/dispatch.hpp"
#include "backend/native/operands.hpp"
#include "backend/native/sparse_exchange.hpp"
#include "base/str.hpp"
#include "life/blame.hpp"
#include "tensor/strided.hpp"

namespace unisono {
namespace {

/// Of operations that are done in one way only, or for which ranks need not agree on the way.
constexpr std::uint8_t kNoChoice = 0;

/// The elements of `tensor` in its output block, to be changed in place.
Block filled(const OutputBlock& output, const Tensor& tensor) {
  if (!tensor.isContiguous()) {
    pack(output.block().data(), tensor);
  }
  return output.block();
}

std::vector<Block> blocksOf(std::span<const OutputBlock> outputs) {
  std::vector<Block> blocks;
  for (const OutputBlock& output : outputs) {
    blocks.push_back(output.block());
  }
  return blocks;
}

void deliverAll(std::span<const OutputBlock> outputs) {
  for (const OutputBlock& output : outputs) {
    output.deliver();
  }
}

}  // namespace

LinkExecutor::LinkExecutor(Communicator& comm, const links::LinkSelector& selector,
                           std::vector<int> globalRanks)
    : comm_(comm), selector_(selector), globalRanks_(std::move(globalRanks)) {}

void LinkExecutor::run(CollectiveArgs& args, Milliseconds timeout) {
  timeout_ = timeout;
  hasEnded_ = false;
  scratch_.reset();
  try {
    Dispatch::run(*this, args);
  } catch (const std::bad_alloc&) {
    throwNoMemory(args);
  }
}

void LinkExecutor::begin(const CollectiveArgs& args, std::uint8_t algorithm) {
  const Tensor* tensor = args.anyTensor();
  comm_.begin(
      {.name = opName(args.type),
       .signature = folded(args.signature()),
       .opType = static_cast<std::uint8_t>(args.type),
       .dtype = static_cast<std::uint8_t>(tensor == nullptr ? DType::UINT8 : tensor->dtype()),
       .reduceOp = static_cast<std::uint8_t>(args.reduceOp.type()),
       .algorithm = algorithm,
       .root = args.root,
       .count = tensor == nullptr ? 0 : static_cast<std::uint64_t>(tensor->numel()),
       .timeout = timeout_});
}

template <typename Body>
void LinkExecutor::operate(const CollectiveArgs& args, std::uint8_t algorithm, Body body) {
  begin(args, algorithm);
  try {
    body();
  } catch (...) {
    hasEnded_ = true;
    comm_.end(false);
    throw;
  }
  comm_.end(true);
}

void LinkExecutor::throwNoMemory(const CollectiveArgs& args) {
  if (!hasEnded_) {
    // Others may be waiting for this rank already: an operation that is not done tells them.
    begin(args, kNoChoice);
    comm_.end(false);
  }
  const int rank = globalRanks_[static_cast<std::size_t>(comm_.rank())];
  throw DistBackendError({.reason = Reason::RESOURCE,
                          .what = str("rank ", rank, " has no memory left for ", args.describe()),
                          .hint = "use smaller tensors, or give the rank more memory",
                          .op = std::string(opName(args.type)),
                          .rank = rank,
                          .culprits = {rank}});
}

void LinkExecutor::broadcast(const CollectiveArgs& args) {
  const Tensor& tensor = args.outputs[static_cast<std::size_t>(args.rootTensor)];
  const OutputBlock output(tensor, scratch_);
  const Block data = isRoot(args) ? filled(output, tensor) : output.block();
  const auto& algorithm = selector_.broadcast(data.size(), comm_.size());
  operate(args, algorithm.number, [&] { algorithm.run(comm_, data, args.root); });
  for (const Tensor& each : args.outputs) {
    if (&each != &tensor) {
      unpack(each, data.data());
    }
  }
  if (!isRoot(args)) {
    output.deliver();
  }
}

void LinkExecutor::allreduceData(const CollectiveArgs& args, Block data, DType type) {
  const Stepwise reduction = Stepwise::of(type, args.reduceOp, comm_.size());
  const auto& algorithm = selector_.allreduce(data.size(), comm_.size());
  operate(args, algorithm.number, [&] { algorithm.run(comm_, data, reduction); });
}

void LinkExecutor::allreduce(const CollectiveArgs& args) {
  if (args.outputs.size() != 1) {
    return allreduceMany(args);
  }
  const Tensor& tensor = args.outputs[0];
  const OutputBlock output(tensor, scratch_);
  const Block data = filled(output, tensor);
  if (args.reduceOp == ReduceOp::PREMUL_SUM) {
    scale(tensor.dtype(), data.data(), data.data(), static_cast<std::size_t>(tensor.numel()),
          args.reduceOp.factor());
  }
  allreduceData(args, data, tensor.dtype());
  output.deliver();
}

void LinkExecutor::allreduceMany(const CollectiveArgs& args) {
  const Block whole = packReduced(args, scratch_);
  allreduceData(args, whole, args.outputs[0].dtype());
  unpackReduced(args, whole.data());
}

void LinkExecutor::allreduceSparse(CollectiveArgs& args) {
  const auto gatherAll = [this](const CollectiveArgs& what, ConstBlock mine, std::byte* all,
                                std::span<const std::size_t> sizes) {
    std::vector<Block> take;
    for (const std::size_t size : sizes) {
      take.emplace_back(all, size);
      all += size;
    }
    gatherBlocks(what, mine, take);
  };
  sumSparseOfAll(
      args, ranks(), scratch_,
      {.gather = gatherAll, .refuse = [this](const AbortCause& fault) { refuse(fault); }});
}

void LinkExecutor::refuse(const AbortCause& fault) {
  std::vector<int> culprits;
  for (const int culprit : fault.culprits) {
    culprits.push_back(globalRanks_[static_cast<std::size_t>(culprit)]);
  }
  throwCause(fault,
             {.op = std::string(opName(OpType::ALLREDUCE_SPARSE)),
              .rank = comm_.rank(),
              .world = comm_.size()},
             std::move(culprits));
}

void LinkExecutor::reduce(const CollectiveArgs& args) {
  const Tensor& tensor = args.outputs[0];
  const Stepwise reduction = Stepwise::of(tensor.dtype(), args.reduceOp, comm_.size());
  const ConstBlock in = contribution(args, tensor, scratch_);
  const auto& algorithm = selector_.reduce(in.size(), comm_.size());
  const auto reduceTo = [&](Block out) {
    operate(args, algorithm.number, [&] { algorithm.run(comm_, in, out, args.root, reduction); });
  };
  if (!isRoot(args)) {
    reduceTo({});
    return;
  }
  const OutputBlock output(tensor, scratch_);
  reduceTo(output.block());
  output.deliver();
}

void LinkExecutor::gatherBlocks(const CollectiveArgs& args, ConstBlock mine,
                                std::span<const Block> take) {
  const auto& algorithm = selector_.allgather(totalOf(take), comm_.size());
  operate(args, algorithm.number, [&] { algorithm.run(comm_, mine, take); });
}

/// Also allgatherCoalesced: every rank gives all its inputs as one block.
void LinkExecutor::allgather(const CollectiveArgs& args) {
  if (args.inputs.size() == 1) {
    std::vector<OutputBlock> outputs;
    for (const Tensor& tensor : args.outputs) {
      outputs.emplace_back(tensor, scratch_);
    }
    gatherBlocks(args, readable(args.inputs[0], scratch_), blocksOf(outputs));
    deliverAll(outputs);
    return;
  }
  const Block mine = packInputs(args, scratch_);
  std::byte* all = scratch_.take(mine.size() * ranks());
  std::vector<Block> take;
  for (std::size_t peer = 0; peer < ranks(); ++peer) {
    take.emplace_back(all + peer * mine.size(), mine.size());
  }
  gatherBlocks(args, mine, take);
  unpackGathered(args, ranks(), all);
}

void LinkExecutor::allgatherSingle(const CollectiveArgs& args, const Tensor& output,
                                   const Tensor& input) {
  const OutputBlock out(output, scratch_);
  gatherBlocks(args, readable(input, scratch_), rowsOf(out.block(), output, {}, ranks()));
  out.deliver();
}

void LinkExecutor::gather(const CollectiveArgs& args) {
  std::vector<OutputBlock> outputs;
  for (std::size_t peer = 0; isRoot(args) && peer < ranks(); ++peer) {
    outputs.emplace_back(args.outputs[peer], scratch_);
  }
  const std::vector<Block> take = blocksOf(outputs);
  const ConstBlock mine = readable(args.inputs[0], scratch_);
  operate(args, kNoChoice, [&] { links::gatherDirect(comm_, mine, take, args.root); });
  deliverAll(outputs);
}

void LinkExecutor::scatter(const CollectiveArgs& args) {
  std::vector<ConstBlock> give;
  for (std::size_t peer = 0; isRoot(args) && peer < ranks(); ++peer) {
    give.push_back(readable(args.inputs[peer], scratch_));
  }
  const OutputBlock output(args.outputs[0], scratch_);
  operate(args, kNoChoice, [&] { links::scatterDirect(comm_, give, output.block(), args.root); });
  output.deliver();
}

void LinkExecutor::reduceBlocks(const CollectiveArgs& args, std::span<const ConstBlock> give,
                                const Tensor& output) {
  const OutputBlock out(output, scratch_);
  const Stepwise reduction = Stepwise::of(output.dtype(), args.reduceOp, comm_.size());
  const auto& algorithm = selector_.reduceScatter(totalOf(give), comm_.size());
  operate(args, algorithm.number, [&] { algorithm.run(comm_, give, out.block(), reduction); });
  out.deliver();
}

void LinkExecutor::reduceScatter(const CollectiveArgs& args) {
  std::vector<ConstBlock> give;
  for (const Tensor& tensor : args.inputs) {
    give.push_back(contribution(args, tensor, scratch_));
  }
  reduceBlocks(args, give, args.outputs[0]);
}

void LinkExecutor::reduceScatterSingle(const CollectiveArgs& args, const Tensor& output,
                                       const Tensor& input) {
  reduceBlocks(args, rowsOf(contribution(args, input, scratch_), input, {}, ranks()), output);
}

void LinkExecutor::dealBlocks(const CollectiveArgs& args, std::span<const ConstBlock> give,
                              std::span<const Block> take) {
  const auto& algorithm = selector_.alltoall(totalOf(give), comm_.size());
  operate(args, kNoChoice, [&] { algorithm.run(comm_, give, take); });
}

void LinkExecutor::alltoall(const CollectiveArgs& args) {
  std::vector<ConstBlock> give;
  std::vector<OutputBlock> outputs;
  for (std::size_t peer = 0; peer < ranks(); ++peer) {
    give.push_back(readable(args.inputs[peer], scratch_));
    outputs.emplace_back(args.outputs[peer], scratch_);
  }
  dealBlocks(args, give, blocksOf(outputs));
  deliverAll(outputs);
}

void LinkExecutor::alltoallSingle(const CollectiveArgs& args) {
  const OutputBlock output(args.outputs[0], scratch_);
  const ConstBlock whole = readable(args.inputs[0], scratch_);
  dealBlocks(args, rowsOf(whole, args.inputs[0], args.inputSplits, ranks()),
             rowsOf(output.block(), args.outputs[0], args.outputSplits, ranks()));
  output.deliver();
}

void LinkExecutor::barrier(const CollectiveArgs& args) {
  operate(args, kNoChoice, [&] { links::barrierDissemination(comm_); });
}

}  // namespace unisono

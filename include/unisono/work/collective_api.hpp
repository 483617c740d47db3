// CollectiveApi: the typed methods of every operation, written once.
//
// A class that has `WorkPtr submit(CollectiveArgs&&)` derives from this and has all operations of
// c10d's ProcessGroup:
//
//   class Backend : public CollectiveApi<Backend> { … };
//   backend.allreduce(gradients, {.reduceOp = ReduceOp::AVG})->wait();
//
// Every method describes the operation, and fails as submit() does: UsageError at once when the
// arguments are wrong, other errors by Work::wait(). Tensors are kept alive until the operation
// has ended, whether or not somebody waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "unisono/tensor/sparse.hpp"
#include "unisono/work/collective_args.hpp"
#include "unisono/work/options.hpp"
#include "unisono/work/work.hpp"

namespace unisono {

/// Lists of tensors, one after the other, and how long each is.
using TensorLists = std::vector<std::vector<Tensor>>;

template <typename Derived>
class CollectiveApi {
 public:
  /// The tensor `opts.rootTensor` of rank `opts.rootRank` is copied into every tensor of all ranks.
  WorkPtr broadcast(TensorList tensors, const BroadcastOptions& opts = {}) {
    CollectiveArgs args = make(OpType::BROADCAST, opts);
    args.root = opts.rootRank;
    args.rootTensor = opts.rootTensor;
    args.outputs = std::move(tensors);
    return go(std::move(args));
  }

  /// All tensors of all ranks are reduced to one, which every tensor becomes.
  WorkPtr allreduce(TensorList tensors, const AllreduceOptions& opts = {}) {
    CollectiveArgs args = make(OpType::ALLREDUCE, opts);
    args.reduceOp = opts.reduceOp;
    args.outputs = std::move(tensors);
    return go(std::move(args));
  }

  /// As one allreduce of the tensors laid end to end; they may have different shapes.
  WorkPtr allreduceCoalesced(TensorList tensors, const AllreduceCoalescedOptions& opts = {}) {
    CollectiveArgs args = make(OpType::ALLREDUCE_COALESCED, opts);
    args.reduceOp = opts.reduceOp;
    args.outputs = std::move(tensors);
    return go(std::move(args));
  }

  /// The sum of sparse tensors: Work::result() has its indices and values, each place once.
  WorkPtr allreduceSparse(SparseTensor tensor, const AllreduceOptions& opts = {}) {
    CollectiveArgs args = make(OpType::ALLREDUCE_SPARSE, opts);
    args.reduceOp = opts.reduceOp;
    args.inputs = TensorList{std::move(tensor.indices), std::move(tensor.values)};
    args.inputSplits.assign(tensor.sizes.begin(), tensor.sizes.end());
    return go(std::move(args));
  }

  /// The reduction of all ranks' tensors, on the root only; elsewhere the tensor is left alone.
  WorkPtr reduce(TensorList tensors, const ReduceOptions& opts = {}) {
    CollectiveArgs args = make(OpType::REDUCE, opts);
    args.reduceOp = opts.reduceOp;
    args.root = opts.rootRank;
    args.rootTensor = opts.rootTensor;
    args.outputs = std::move(tensors);
    return go(std::move(args));
  }

  /// outputs[j][p * k + i] becomes input i of the k inputs of rank p. With one input the sizes may
  /// differ from rank to rank.
  WorkPtr allgather(const TensorLists& outputs, TensorList inputs,
                    const AllgatherOptions& opts = {}) {
    CollectiveArgs args = make(OpType::ALLGATHER, opts);
    args.inputs = std::move(inputs);
    args.outputs = flatten(outputs, args.outputSplits);
    return go(std::move(args));
  }

  /// All ranks' inputs, by rank, in one tensor.
  WorkPtr allGatherSingle(Tensor output, Tensor input, const AllgatherOptions& opts = {}) {
    CollectiveArgs args = make(OpType::ALLGATHER_BASE, opts);
    args.inputs = std::move(input);
    args.outputs = std::move(output);
    return go(std::move(args));
  }

  /// outputs[p][i] becomes input i of rank p.
  WorkPtr allgatherCoalesced(const TensorLists& outputs, TensorList inputs,
                             const AllgatherOptions& opts = {}) {
    CollectiveArgs args = make(OpType::ALLGATHER_COALESCED, opts);
    args.inputs = std::move(inputs);
    args.outputs = flatten(outputs, args.outputSplits);
    return go(std::move(args));
  }

  /// allGatherSingle of each pair.
  WorkPtr allGatherSingleCoalesced(TensorList outputs, TensorList inputs,
                                   const AllgatherOptions& opts = {}) {
    CollectiveArgs args = make(OpType::ALLGATHER_INTO_TENSOR_COALESCED, opts);
    args.inputs = std::move(inputs);
    args.outputs = std::move(outputs);
    return go(std::move(args));
  }

  /// outputs[0][p] becomes the input of rank p, on the root; other ranks give no outputs.
  WorkPtr gather(const TensorLists& outputs, TensorList inputs, const GatherOptions& opts = {}) {
    CollectiveArgs args = make(OpType::GATHER, opts);
    args.root = opts.rootRank;
    args.inputs = std::move(inputs);
    args.outputs = flatten(outputs, args.outputSplits);
    return go(std::move(args));
  }

  /// The output of rank p becomes inputs[0][p] of the root; other ranks give no inputs.
  WorkPtr scatter(TensorList outputs, const TensorLists& inputs, const ScatterOptions& opts = {}) {
    CollectiveArgs args = make(OpType::SCATTER, opts);
    args.root = opts.rootRank;
    args.inputs = flatten(inputs, args.inputSplits);
    args.outputs = std::move(outputs);
    return go(std::move(args));
  }

  /// The output of rank p becomes the reduction of all ranks' inputs[0][p].
  WorkPtr reduceScatter(TensorList outputs, const TensorLists& inputs,
                        const ReduceScatterOptions& opts = {}) {
    CollectiveArgs args = make(OpType::REDUCE_SCATTER, opts);
    args.reduceOp = opts.reduceOp;
    args.inputs = flatten(inputs, args.inputSplits);
    args.outputs = std::move(outputs);
    return go(std::move(args));
  }

  /// The output of rank p becomes the reduction of share p of all ranks' inputs.
  WorkPtr reduceScatterSingle(Tensor output, Tensor input, const ReduceScatterOptions& opts = {}) {
    CollectiveArgs args = make(OpType::REDUCE_SCATTER_BASE, opts);
    args.reduceOp = opts.reduceOp;
    args.inputs = std::move(input);
    args.outputs = std::move(output);
    return go(std::move(args));
  }

  /// reduceScatterSingle of each pair.
  WorkPtr reduceScatterSingleCoalesced(TensorList outputs, TensorList inputs,
                                       const ReduceScatterOptions& opts = {}) {
    CollectiveArgs args = make(OpType::REDUCE_SCATTER_TENSOR_COALESCED, opts);
    args.reduceOp = opts.reduceOp;
    args.inputs = std::move(inputs);
    args.outputs = std::move(outputs);
    return go(std::move(args));
  }

  /// outputs[p] becomes inputs[this rank] of rank p; sizes may differ.
  WorkPtr allToAll(TensorList outputs, TensorList inputs, const AllToAllOptions& opts = {}) {
    CollectiveArgs args = make(OpType::ALLTOALL, opts);
    args.inputs = std::move(inputs);
    args.outputs = std::move(outputs);
    return go(std::move(args));
  }

  /// Rows of one tensor to each rank: as many as the splits say, or equal shares without them.
  WorkPtr allToAllSingle(Tensor output, Tensor input, std::vector<std::int64_t> outputSplits = {},
                         std::vector<std::int64_t> inputSplits = {},
                         const AllToAllOptions& opts = {}) {
    CollectiveArgs args = make(OpType::ALLTOALL_BASE, opts);
    args.inputs = std::move(input);
    args.outputs = std::move(output);
    args.inputSplits = std::move(inputSplits);
    args.outputSplits = std::move(outputSplits);
    return go(std::move(args));
  }

  /// To rank `dst`, which receives with the same tag; ends when the tensor may be written again.
  WorkPtr send(TensorList tensors, int dst, int tag = 0, const P2POptions& opts = {}) {
    CollectiveArgs args = make(OpType::SEND, opts);
    args.peer = dst;
    args.tag = tag;
    args.inputs = std::move(tensors);
    return go(std::move(args));
  }

  WorkPtr recv(TensorList tensors, int src, int tag = 0, const P2POptions& opts = {}) {
    CollectiveArgs args = make(OpType::RECV, opts);
    args.peer = src;
    args.tag = tag;
    args.outputs = std::move(tensors);
    return go(std::move(args));
  }

  /// From whoever sends with this tag; Work::sourceRank() tells who it was.
  WorkPtr recvAnysource(TensorList tensors, int tag = 0, const P2POptions& opts = {}) {
    CollectiveArgs args = make(OpType::RECVANYSOURCE, opts);
    args.tag = tag;
    args.outputs = std::move(tensors);
    return go(std::move(args));
  }

  /// Ends when all ranks have called it and what this rank called before has ended.
  WorkPtr barrier(const BarrierOptions& opts = {}) {
    CollectiveArgs args = make(OpType::BARRIER, opts);
    args.device = opts.device.value_or(Device{});
    return go(std::move(args));
  }

 protected:
  CollectiveApi() = default;
  ~CollectiveApi() = default;

 private:
  template <typename Options>
  static CollectiveArgs make(OpType type, const Options& opts) {
    CollectiveArgs args;
    args.type = type;
    args.asyncOp = opts.asyncOp;
    args.timeout = opts.timeout;
    return args;
  }

  static std::vector<Tensor> flatten(const TensorLists& lists, std::vector<std::int64_t>& lengths) {
    std::vector<Tensor> flat;
    for (const std::vector<Tensor>& list : lists) {
      flat.insert(flat.end(), list.begin(), list.end());
      lengths.push_back(static_cast<std::int64_t>(list.size()));
    }
    return flat;
  }

  WorkPtr go(CollectiveArgs&& args) { return static_cast<Derived&>(*this).submit(std::move(args)); }
};

}  // namespace unisono

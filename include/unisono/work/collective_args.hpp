// CollectiveArgs: one operation of a group, as a value.
//
// Every operation is described by this one struct, so that backends, hooks, recorders and wrappers
// handle one type instead of twenty. Users do not fill it by hand: the typed methods of
// CollectiveApi do.
//
// Which tensors are where:
//
//   in place      broadcast, allreduce (also coalesced), reduce: `outputs` only. The tensors are
//                 both what this rank gives and what it gets; `inputs` is empty.
//   out of place  all others: `inputs` is what this rank gives, `outputs` what it gets. Either may
//                 be empty: a rank that is not the root of a gather has no outputs, send has none.
//   sparse        `inputs` are indices and values, `inputSplits` the sizes of the whole; the
//                 backend makes `outputs`, in memory of its own.
//
// Where c10d takes lists of lists (allgather, gather, allgatherCoalesced: outputs; scatter,
// reduceScatter: inputs) the lists follow one another, and the splits say how long each is.
//
// The value owns what its tensors keep alive. One tensor in and one out are kept without
// allocating.
//
// Thread safety: a value, for one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/api.hpp"
#include "unisono/reduction/reduce_op.hpp"
#include "unisono/tensor/device.hpp"
#include "unisono/tensor/tensor.hpp"
#include "unisono/work/op_type.hpp"
#include "unisono/work/options.hpp"
#include "unisono/work/tensor_list.hpp"

namespace unisono {

struct CollectiveArgs {
  OpType type = OpType::UNKNOWN;
  bool asyncOp = true;  // false: the caller will wait at once
  Device device = {};   // of operations without tensors: barrier
  ReduceOp reduceOp = ReduceOp::SUM;
  int root = -1;       // rooted collectives
  int rootTensor = 0;  // which of several local tensors the root means
  int peer = -1;       // send, recv; -1: any source
  int tag = 0;         // send, recv
  std::chrono::milliseconds timeout = kUnsetTimeout;
  std::uint64_t seq = 0;  // the number its group gave it; 0: none yet
  TensorList inputs = {};
  TensorList outputs = {};
  /// allToAllSingle: rows for, and from, each rank (empty: equal shares). Lists of lists: the
  /// length of each list.
  std::vector<std::int64_t> inputSplits = {};
  std::vector<std::int64_t> outputSplits = {};

  /// Throws UsageError unless the call makes sense for this rank of `size`: every check that
  /// needs no backend and no peer. Overlapping outputs are refused, and inputs that overlap
  /// outputs anywhere but in this rank's own slot.
  UNISONO_API void validate(int rank, int size) const;

  /// "all_reduce(float32[1048576], SUM)"
  UNISONO_API std::string describe() const;

  /// A hash of what all ranks must agree on: operation, dtype, reduction (without its factor),
  /// root, and those counts that are equal on all ranks. Point-to-point operations need not agree
  /// with other ranks than their peer: theirs is 0.
  UNISONO_API std::uint64_t signature() const noexcept;

  /// A tensor of the call, outputs first; null for none.
  const Tensor* anyTensor() const noexcept {
    return !outputs.empty() ? outputs.data() : inputs.empty() ? nullptr : inputs.data();
  }
};

}  // namespace unisono

// Dispatch: which method of an executor runs an operation.
//
// Executor and LinkExecutor have methods of the same names, and call this as their friend.
#pragma once

#include <cstddef>
#include <string>

#include "unisono/base/error.hpp"
#include "unisono/work/collective_args.hpp"
#include "unisono/work/op_type.hpp"

#include "base/str.hpp"

namespace unisono {

struct Dispatch {
  /// Throws NotSupportedError when there is no such method.
  template <typename Runner>
  static void run(Runner& runner, CollectiveArgs& args) {
    switch (args.type) {
      case OpType::ALLREDUCE:
        return runner.allreduce(args);
      case OpType::ALLREDUCE_COALESCED:
        return runner.allreduceMany(args);
      case OpType::ALLREDUCE_SPARSE:
        return runner.allreduceSparse(args);
      case OpType::REDUCE:
        return runner.reduce(args);
      case OpType::BROADCAST:
        return runner.broadcast(args);
      case OpType::ALLGATHER:
      case OpType::ALLGATHER_COALESCED:
        return runner.allgather(args);
      case OpType::ALLGATHER_BASE:
      case OpType::ALLGATHER_INTO_TENSOR_COALESCED:
        for (std::size_t i = 0; i < args.inputs.size(); ++i) {
          runner.allgatherSingle(args, args.outputs[i], args.inputs[i]);
        }
        return;
      case OpType::GATHER:
        return runner.gather(args);
      case OpType::SCATTER:
        return runner.scatter(args);
      case OpType::REDUCE_SCATTER:
        return runner.reduceScatter(args);
      case OpType::REDUCE_SCATTER_BASE:
      case OpType::REDUCE_SCATTER_TENSOR_COALESCED:
        for (std::size_t i = 0; i < args.inputs.size(); ++i) {
          runner.reduceScatterSingle(args, args.outputs[i], args.inputs[i]);
        }
        return;
      case OpType::ALLTOALL:
        return runner.alltoall(args);
      case OpType::ALLTOALL_BASE:
        return runner.alltoallSingle(args);
      case OpType::BARRIER:
        return runner.barrier(args);
      default:
        throw NotSupportedError(
            {.what = str("Backend unisono does not support ", methodName(args.type)),
             .op = std::string(opName(args.type))});
    }
  }
};

}  // namespace unisono

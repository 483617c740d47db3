// Functional collectives: each leaves its argument alone and returns a new tensor, at once.
//
//   Tensor total = functional::allReduce(gradient, ReduceOp::SUM, world);  // under way
//   …
//   waitTensor(total);  // can be read from here on
//
// What is given must not change before what was made of it has been waited for; a tensor that is
// still under way itself is waited for first. It may be strided. Results are in memory of the CPU
// that goes with their last copy. An operation that fails does so where its result is waited for.
//
// Those that unisono.functional has in Python match these, where ranks are of both languages.
//
// Thread safety: as ProcessGroup.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/api.hpp"
#include "unisono/group/group.hpp"
#include "unisono/group/process_group.hpp"
#include "unisono/group/work_registry.hpp"
#include "unisono/reduction/reduce_op.hpp"
#include "unisono/tensor/tensor.hpp"

namespace unisono::functional {

/// A group, or the name that one is registered under.
class UNISONO_API GroupRef {
 public:
  GroupRef(const Group& group) : group_(group.sharedProcessGroup()) {}  // NOLINT: converts
  GroupRef(std::shared_ptr<ProcessGroup> group);                        // NOLINT: converts
  /// Throws UsageError when no living group has that name.
  GroupRef(std::string_view name);                                         // NOLINT: converts
  GroupRef(const std::string& name) : GroupRef(std::string_view(name)) {}  // NOLINT: converts
  GroupRef(const char* name) : GroupRef(std::string_view(name)) {}         // NOLINT: converts

  ProcessGroup& operator*() const noexcept { return *group_; }
  ProcessGroup* operator->() const noexcept { return group_.get(); }

 private:
  std::shared_ptr<ProcessGroup> group_;  // never null
};

/// The reduction of everybody's tensor.
UNISONO_API Tensor allReduce(const Tensor& input, ReduceOp op, const GroupRef& group);

/// The tensor of rank `root`.
UNISONO_API Tensor broadcast(const Tensor& input, int root, const GroupRef& group);

/// On rank `root` the reduction of everybody's tensor, elsewhere a copy of what was given.
UNISONO_API Tensor reduce(const Tensor& input, ReduceOp op, int root, const GroupRef& group);

/// On rank `root` everybody's tensors, by rank, one after the other along the first dimension;
/// elsewhere no rows.
UNISONO_API Tensor gather(const Tensor& input, int root, const GroupRef& group);

/// This rank's part, along the first dimension, of the tensor of rank `root`. What the others give
/// says only its sizes and type. UsageError when that cannot be shared equally.
UNISONO_API Tensor scatter(const Tensor& input, int root, const GroupRef& group);

/// Everybody's tensors, by rank, one after the other along `dim`; single elements become a row.
/// Along another dimension than the first it waits for them, since they are put together here.
/// Negative dimensions count from the last.
UNISONO_API Tensor allGather(const Tensor& input, int dim, const GroupRef& group);

/// This rank's part, along `dim`, of the reduction of everybody's tensor. UsageError when that
/// cannot be shared equally.
UNISONO_API Tensor reduceScatter(const Tensor& input, ReduceOp op, int dim, const GroupRef& group);

/// Rows from everybody, by rank, and rows to everybody: as many as the splits say, or equal parts
/// where both are empty.
UNISONO_API Tensor allToAll(const Tensor& input, std::span<const std::int64_t> outputSplits,
                            std::span<const std::int64_t> inputSplits, const GroupRef& group);

/// The tensor of the rank whose place in `sourceToTarget` names this one; all have one shape.
UNISONO_API Tensor permute(const Tensor& input, std::span<const int> sourceToTarget,
                           const GroupRef& group);

/// allReduce() of each.
UNISONO_API std::vector<Tensor> allReduceCoalesced(std::span<const Tensor> inputs, ReduceOp op,
                                                   const GroupRef& group);

/// allGather() of each, along the first dimension.
UNISONO_API std::vector<Tensor> allGatherCoalesced(std::span<const Tensor> inputs,
                                                   const GroupRef& group);

/// reduceScatter() of each, along its own dimension.
UNISONO_API std::vector<Tensor> reduceScatterCoalesced(std::span<const Tensor> inputs, ReduceOp op,
                                                       std::span<const int> dims,
                                                       const GroupRef& group);

}  // namespace unisono::functional

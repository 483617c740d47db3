// Sparse all_reduce: every rank gathers what all ranks have, and adds it up in the same order.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "unisono/work/collective_args.hpp"

#include "backend/native/staging.hpp"
#include "life/abort_record.hpp"

namespace unisono {

/// How it reaches the other ranks.
struct SparseMoves {
  /// An operation of its own, called `what`: the blocks of all ranks, `sizes` long, one after the
  /// other to `all`.
  std::function<void(const CollectiveArgs& what, ConstBlock mine, std::byte* all,
                     std::span<const std::size_t> sizes)>
      gather;
  /// Throws what all ranks have found, and throw; the group stays usable.
  std::function<void(const AbortCause& fault)> refuse;
};

/// Leaves the sum in `args.outputs`, in memory of its own.
void sumSparseOfAll(CollectiveArgs& args, std::size_t ranks, Scratch& scratch,
                    const SparseMoves& moves);

}  // namespace unisono

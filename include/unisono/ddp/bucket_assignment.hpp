// Bucket assignment: which gradients travel together.
//
// Many small all_reduces cost more than one large one, and one for all could begin only when the
// last gradient is there. So gradients are put into buckets, each of which is reduced as soon as it
// is full, while the next ones are computed.
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "unisono/base/api.hpp"
#include "unisono/tensor/tensor.hpp"

namespace unisono {

/// Indices of tensors, bucket after bucket, in the order in which buckets are reduced.
using BucketIndices = std::vector<std::vector<std::size_t>>;

struct BucketAssignment {
  BucketIndices buckets;
  std::vector<std::size_t> limits;  // in bytes, of each bucket; 0 for a sparse one
};

/// Puts tensors of one type and device into one bucket until that has limits[0] bytes or more, the
/// next ones into one of limits[1], …; the last limit holds for all further ones. Every type has
/// limits, and buckets, of its own. A limit closes a bucket, it does not cut tensors: a bucket may
/// be larger by nearly a whole one.
///
/// `expectSparse[i]`: tensor i gets a bucket of its own. `tensorIndices`: what the tensors are
/// called in the answer, whose buckets are then in the order in which they were full; otherwise
/// they are in the order of their smallest index. Both may be empty.
///
/// Throws UsageError when there are no tensors or no limits, or the lists do not fit.
UNISONO_API BucketAssignment computeBucketAssignmentBySize(
    std::span<const Tensor> tensors, std::span<const std::size_t> limits,
    const std::vector<bool>& expectSparse = {}, std::span<const std::size_t> tensorIndices = {});

}  // namespace unisono

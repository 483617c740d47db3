#include "unisono/ddp/bucket_assignment.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.hpp"

namespace unisono {
namespace {

/// The bucket of one type and device that is being filled.
struct OpenBucket {
  DType type;
  Device device;
  std::vector<std::size_t> indices = {};
  std::size_t bytes = 0;
  std::size_t cursor = 0;  // of the limits
};

/// Tails are closed in the order in which their types were first seen: the same on every rank.
OpenBucket& openBucketOf(std::vector<OpenBucket>& open, const Tensor& tensor) {
  const auto found = std::find_if(open.begin(), open.end(), [&](const OpenBucket& each) {
    return each.type == tensor.dtype() && each.device == tensor.device();
  });
  return found != open.end()
             ? *found
             : open.emplace_back(OpenBucket{.type = tensor.dtype(), .device = tensor.device()});
}

void emit(BucketAssignment& into, std::vector<std::size_t> indices, std::size_t limit) {
  into.buckets.push_back(std::move(indices));
  into.limits.push_back(limit);
}

BucketAssignment sortedBySmallestIndex(BucketAssignment from) {
  std::vector<std::size_t> order(from.buckets.size());
  std::iota(order.begin(), order.end(), 0);
  const auto smallest = [&](std::size_t bucket) {
    return *std::min_element(from.buckets[bucket].begin(), from.buckets[bucket].end());
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return smallest(a) < smallest(b); });
  BucketAssignment sorted;
  for (const std::size_t bucket : order) {
    emit(sorted, std::move(from.buckets[bucket]), from.limits[bucket]);
  }
  return sorted;
}

}  // namespace

BucketAssignment computeBucketAssignmentBySize(std::span<const Tensor> tensors,
                                               std::span<const std::size_t> limits,
                                               const std::vector<bool>& expectSparse,
                                               std::span<const std::size_t> tensorIndices) {
  UNISONO_CHECK(!tensors.empty(), "there are no tensors to put into buckets");
  UNISONO_CHECK(!limits.empty(), "buckets need at least one limit of their size");
  UNISONO_CHECK(expectSparse.empty() || expectSparse.size() == tensors.size(), "there are ",
                tensors.size(), " tensors, but it is said of ", expectSparse.size(),
                " whether they are sparse");
  UNISONO_CHECK(tensorIndices.empty() || tensorIndices.size() == tensors.size(), "there are ",
                tensors.size(), " tensors, but ", tensorIndices.size(), " indices of them");

  BucketAssignment assignment;
  std::vector<OpenBucket> open;
  for (std::size_t at = 0; at < tensors.size(); ++at) {
    const Tensor& tensor = tensors[at];
    const std::size_t index = tensorIndices.empty() ? at : tensorIndices[at];
    UNISONO_CHECK(expectSparse.empty() || index < expectSparse.size(), "there is no tensor ", index,
                  " among ", tensors.size());
    if (!expectSparse.empty() && expectSparse[index]) {
      emit(assignment, {index}, 0);
      continue;
    }
    OpenBucket& bucket = openBucketOf(open, tensor);
    bucket.indices.push_back(index);
    bucket.bytes += tensor.bytes();
    if (bucket.bytes >= limits[bucket.cursor]) {
      emit(assignment, std::exchange(bucket.indices, {}), limits[bucket.cursor]);
      bucket.bytes = 0;
      bucket.cursor = std::min(bucket.cursor + 1, limits.size() - 1);
    }
  }
  for (OpenBucket& bucket : open) {
    if (!bucket.indices.empty()) {
      emit(assignment, std::move(bucket.indices), limits[bucket.cursor]);
    }
  }
  return tensorIndices.empty() ? sortedBySmallestIndex(std::move(assignment)) : assignment;
}

}  // namespace unisono

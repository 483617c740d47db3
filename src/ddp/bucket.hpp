// Bucket: gradients that are reduced together, one after the other in one row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "unisono/ddp/bucket_assignment.hpp"
#include "unisono/ddp/comm_hook.hpp"
#include "unisono/ddp/params.hpp"

namespace unisono::ddp {

struct Bucket {
  std::vector<std::size_t> params;
  Tensor buffer;
  std::vector<std::int64_t> offsets;  // of each parameter, in elements
  std::vector<Tensor> views;          // of the buffer, laid out as the parameters are
  bool isSparse = false;              // it has one parameter, and neither buffer nor views

  GradBucket forHook(std::size_t index, std::size_t count, std::span<const Param> all) const;
};

/// Where a parameter is: the bucket, and the place in it.
struct Locator {
  std::size_t bucket;
  std::size_t position;
};

/// Throws UsageError unless every parameter is in exactly one bucket, and those of one bucket have
/// one type and device, of which there is an average; and one that is sparse is alone. `sparse` has
/// as many elements as there are parameters, or none.
void checkBuckets(std::span<const Param> params, const BucketIndices& buckets,
                  const std::vector<bool>& sparse);

/// In registered memory where there is such. Throws DistError (RESOURCE) naming the bucket.
std::vector<Bucket> makeBuckets(const Group& group, std::span<const Param> params,
                                const BucketIndices& buckets, const std::vector<bool>& sparse);

std::vector<Locator> locate(std::span<const Bucket> buckets, std::size_t params);

}  // namespace unisono::ddp

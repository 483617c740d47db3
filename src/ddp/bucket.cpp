#include "ddp/bucket.hpp"

#include "base/check.hpp"
#include "ddp/memory.hpp"

namespace unisono::ddp {
namespace {

bool isSparse(const std::vector<bool>& sparse, std::size_t index) {
  return !sparse.empty() && sparse[index];
}

Bucket makeBucket(const Group& group, std::span<const Param> params,
                  const std::vector<std::size_t>& indices, const std::vector<bool>& sparse) {
  Bucket bucket{.params = indices, .buffer = {}, .offsets = {}, .views = {}};
  if (isSparse(sparse, indices[0])) {
    bucket.isSparse = true;
    return bucket;
  }
  std::int64_t count = 0;
  for (const std::size_t index : indices) {
    bucket.offsets.push_back(count);
    count += params[index].value.numel();
  }
  bucket.buffer = registeredMemory(group, count, params[indices[0]].value.dtype());
  for (std::size_t at = 0; at < indices.size(); ++at) {
    bucket.views.push_back(viewLike(params[indices[at]].value, bucket.buffer, bucket.offsets[at]));
  }
  return bucket;
}

/// All of a bucket are as its first.
void checkAlike(std::span<const Param> params, const std::vector<std::size_t>& bucket,
                std::size_t number) {
  const Tensor& first = params[bucket[0]].value;
  for (const std::size_t index : bucket) {
    const Tensor& value = params[index].value;
    UNISONO_CHECK(
        value.dtype() == first.dtype() && value.device() == first.device(), "bucket ", number,
        " has parameters of different types: ", describe(params[bucket[0]], bucket[0]), " is ",
        first.describe(), ", ", describe(params[index], index), " is ", value.describe());
  }
}

}  // namespace

GradBucket Bucket::forHook(std::size_t index, std::size_t count, std::span<const Param> all) const {
  std::vector<GradBucket::Part> parts;
  for (std::size_t at = 0; at < params.size(); ++at) {
    parts.push_back({.parameter = all[params[at]].value, .offset = offsets[at]});
  }
  return {index, count, buffer, std::move(parts)};
}

void checkBuckets(std::span<const Param> params, const BucketIndices& buckets,
                  const std::vector<bool>& sparse) {
  UNISONO_CHECK(!params.empty(), "there are no parameters to train");
  UNISONO_CHECK(sparse.empty() || sparse.size() == params.size(), "there are ", params.size(),
                " parameters, but it is said of ", sparse.size(),
                " whether their gradients are sparse");
  for (std::size_t i = 0; i < params.size(); ++i) {
    const Tensor& value = params[i].value;
    UNISONO_CHECK(value.defined(), describe(params[i], i), " is no tensor");
    UNISONO_CHECK(isFloatingPoint(value.dtype()) || isComplex(value.dtype()),
                  describe(params[i], i), " is ", value.describe(),
                  ", and gradients of that type have no average");
    UNISONO_CHECK(value.device().type == DeviceType::CPU, describe(params[i], i), " is on ",
                  describe(value.device()), ", but only those on the CPU can be reduced");
  }
  std::vector<bool> seen(params.size());
  for (std::size_t number = 0; number < buckets.size(); ++number) {
    UNISONO_CHECK(!buckets[number].empty(), "bucket ", number, " is empty");
    for (const std::size_t index : buckets[number]) {
      UNISONO_CHECK(index < params.size(), "bucket ", number, " has parameter ", index,
                    ", but there are ", params.size());
      UNISONO_CHECK(!seen[index], describe(params[index], index), " is in two buckets");
      seen[index] = true;
      UNISONO_CHECK(buckets[number].size() == 1 || !isSparse(sparse, index), "bucket ", number,
                    " has ", describe(params[index], index),
                    " among others, but its gradients are sparse, which needs a bucket of its own");
    }
    checkAlike(params, buckets[number], number);
  }
  for (std::size_t i = 0; i < params.size(); ++i) {
    UNISONO_CHECK(seen[i], describe(params[i], i), " is in no bucket");
  }
}

std::vector<Bucket> makeBuckets(const Group& group, std::span<const Param> params,
                                const BucketIndices& buckets, const std::vector<bool>& sparse) {
  std::vector<Bucket> made;
  for (std::size_t number = 0; number < buckets.size(); ++number) {
    try {
      made.push_back(makeBucket(group, params, buckets[number], sparse));
    } catch (const DistError& error) {
      ErrorFacts facts = error.facts();
      facts.what = str("bucket ", number, " of ", buckets.size(), ", which begins with ",
                       describe(params[buckets[number][0]], buckets[number][0]),
                       ", cannot be made: ", facts.what);
      throw DistError(std::move(facts));
    }
  }
  return made;
}

std::vector<Locator> locate(std::span<const Bucket> buckets, std::size_t params) {
  std::vector<Locator> places(params);
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    for (std::size_t at = 0; at < buckets[bucket].params.size(); ++at) {
      places.at(buckets[bucket].params[at]) = {.bucket = bucket, .position = at};
    }
  }
  return places;
}

}  // namespace unisono::ddp

// Between steps: making buckets, ordering them anew, and starting over.
#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "ddp/memory.hpp"
#include "ddp/reducer_impl.hpp"

namespace unisono {
namespace {

/// Buckets as a row that rank 0 tells: the indices, bucket after bucket, and how long each bucket
/// is, filled up with 0.
std::vector<std::int32_t> rowOf(const BucketIndices& buckets, std::size_t params) {
  std::vector<std::int32_t> row;
  for (const std::vector<std::size_t>& bucket : buckets) {
    row.insert(row.end(), bucket.begin(), bucket.end());
  }
  for (const std::vector<std::size_t>& bucket : buckets) {
    row.push_back(static_cast<std::int32_t>(bucket.size()));
  }
  row.resize(2 * params);
  return row;
}

/// The way back. What makes no sense is found by checkBuckets().
BucketIndices bucketsOf(std::span<const std::int32_t> row) {
  const std::size_t params = row.size() / 2;
  BucketIndices buckets;
  std::size_t at = 0;
  for (std::size_t bucket = 0; bucket < params && at < params; ++bucket) {
    const auto length =
        std::min(static_cast<std::size_t>(std::max(row[params + bucket], 0)), params - at);
    const auto indices = row.subspan(at, length);
    buckets.emplace_back(indices.begin(), indices.end());
    at += length;
  }
  return buckets;
}

}  // namespace

Reducer::Impl::Impl(Group group, std::vector<Param> params, BucketIndices buckets, GradHost& host,
                    ReducerOptions options)
    : params_(std::move(params)),
      host_(host),
      options_(std::move(options)),
      group_(std::move(group)),
      marks_(params_.size()),
      sparseDims_(params_.size(), 1),
      used_(params_.size()),
      backwardStats_(params_.size()) {
  UNISONO_CHECK(!options_.markMissingAsUnused || options_.findUnusedParameters,
                "markMissingAsUnused needs findUnusedParameters");
  layOut(buckets);
}

void Reducer::Impl::checkFinalized() const {
  const MutexLock lock(mutex_);
  if (step_ == Step::SYNCING && marked_) {
    throw ddp::unfinishedBefore(place(), missing());
  }
}

void Reducer::Impl::requireNoStep(const char* call) {
  checkFinalized();
  const MutexLock lock(mutex_);
  UNISONO_CHECK(step_ != Step::ACCUMULATING, call, " was called within a step");
  step_ = Step::NONE;
}

void Reducer::Impl::registerCommHook(std::shared_ptr<CommHook> hook) {
  for (std::size_t i = 0; i < params_.size(); ++i) {
    UNISONO_CHECK(!isSparse(i), "a communication hook cannot reduce ", describe(params_[i], i),
                  ", whose gradients are sparse");
  }
  installHook(std::move(hook));
}

void Reducer::Impl::installHook(std::shared_ptr<CommHook> hook) {
  UNISONO_CHECK(hook != nullptr, "Communication hook must be callable.");
  UNISONO_CHECK(!hook_,
                "register_comm_hook or register_builtin_comm_hook can only be called once.");
  requireNoStep("registerCommHook()");
  hook_ = std::move(hook);
}

void Reducer::Impl::registerBuiltinCommHook(BuiltinCommHookType type) {
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const DType dtype = params_[i].value.dtype();
    UNISONO_CHECK(
        type != BuiltinCommHookType::FP16_COMPRESS || (isFloatingPoint(dtype) && !isSparse(i)),
        "FP16_COMPRESS cannot make float16 of ", describe(params_[i], i), ", which is ",
        params_[i].value.describe(), isSparse(i) ? " with sparse gradients" : "");
  }
  installHook(makeCommHook(type, group_));
  builtin_ = type;
  if (const std::shared_ptr<Logger> logger = logger_.lock()) {
    logger->setCommHook(name(type));
  }
}

void Reducer::Impl::layOut(const BucketIndices& buckets) {
  ddp::checkBuckets(params_, buckets, options_.expectSparseGradients);
  if (!options_.gradientAsBucketView) {
    buckets_.clear();  // so that not both are in memory at once
  }
  buckets_ = ddp::makeBuckets(group_, params_, buckets, options_.expectSparseGradients);
  places_ = ddp::locate(buckets_, params_.size());
  std::vector<std::size_t> bucketOf;
  for (const ddp::Locator& at : places_) {
    bucketOf.push_back(at.bucket);
  }
  {
    const MutexLock lock(mutex_);
    order_ = ddp::LaunchOrder(std::move(bucketOf), buckets_.size());
  }
  if (options_.gradientAsBucketView) {
    adoptGradients();
  }
}

/// Gradients that exist go into their buckets.
void Reducer::Impl::adoptGradients() {
  for (std::size_t index = 0; index < params_.size(); ++index) {
    if (isSparse(index)) {
      continue;
    }
    const ddp::Locator at = places_[index];
    const Tensor& slot = buckets_[at.bucket].views[at.position];
    const Tensor grad = host_.grad(index);
    checkGradient(index, grad);
    if (grad.defined()) {
      ddp::copyElements(slot, grad);
      host_.adopt(index, slot);
    }
  }
}

BucketIndices Reducer::Impl::orderedByArrival() const {
  std::vector<std::size_t> limits = options_.bucketBytesCapList;
  if (limits.empty()) {
    limits = {options_.firstBucketBytesCap, options_.bucketBytesCap};
  }
  std::vector<Tensor> values;
  for (const std::size_t index : arrivalOrder_) {
    values.push_back(params_[index].value);
  }
  return computeBucketAssignmentBySize(values, limits, options_.expectSparseGradients,
                                       arrivalOrder_)
      .buckets;
}

bool Reducer::Impl::rebuildBuckets() {
  requireNoStep("rebuildBuckets()");
  const bool isAllowed = options_.staticGraph || !options_.findUnusedParameters;
  if (rebuilt_ || !isAllowed || arrivalOrder_.empty()) {
    return false;
  }
  std::vector<std::int32_t> row(2 * params_.size());
  if (group_.rank() == 0) {
    row = rowOf(orderedByArrival(), params_.size());
  }
  group_.broadcast(row);
  layOut(bucketsOf(row));
  rebuilt_ = true;
  return true;
}

void Reducer::Impl::resetState(std::optional<Group> group) {
  // Waits, and writes nothing.
  collect(std::make_exception_ptr(DistError({.reason = Reason::ABORTED, .what = "a reset"})));
  close(false);
  {
    const MutexLock lock(mutex_);
    readyOrder_.clear();
    used_ = ddp::UsedMap(params_.size());
    lastUnused_.reset();
    graphStatic_ = true;
  }
  rebuilt_ = false;
  synced_ = 0;
  arrivalOrder_.clear();
  marks_.assign(params_.size(), 0);
  if (group) {
    group_ = *group;
    if (hook_) {
      hook_->useGroup(group_);
    }
    layOut(buckets());  // in memory that the ranks of that one reach
  }
}

BucketIndices Reducer::Impl::buckets() const {
  BucketIndices all;
  for (const ddp::Bucket& bucket : buckets_) {
    all.push_back(bucket.params);
  }
  return all;
}

std::vector<GradBucket> Reducer::Impl::zeroBuckets() const {
  std::vector<GradBucket> all;
  for (const ddp::Bucket& bucket : buckets_) {
    UNISONO_CHECK(!bucket.isSparse, "bucket ", all.size(), " is no row of gradients: those of ",
                  describe(params_[bucket.params[0]], bucket.params[0]), " are sparse");
    ddp::Bucket zeros = bucket;
    zeros.buffer = ddp::ordinaryMemory(bucket.buffer.numel(), bucket.buffer.dtype());
    all.push_back(zeros.forHook(all.size(), buckets_.size(), params_));
  }
  return all;
}

std::vector<std::size_t> Reducer::Impl::gradReadyOrder() const {
  const MutexLock lock(mutex_);
  return readyOrder_;
}

std::vector<std::int32_t> Reducer::Impl::usedMap() const {
  if (!options_.findUnusedParameters && !options_.staticGraph) {
    return {};
  }
  const MutexLock lock(mutex_);
  return used_.counts();
}

}  // namespace unisono

#include "unisono/ddp/data_parallel.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "unisono/ddp/broadcast_coalesced.hpp"

#include "base/check.hpp"
#include "ddp/memory.hpp"

namespace unisono {
namespace {

std::vector<Tensor> valuesOf(const std::vector<Param>& params) {
  std::vector<Tensor> values;
  for (const Param& param : params) {
    values.push_back(param.value);
  }
  return values;
}

/// Of the first step, in which nobody knows how gradients come: probably last to first. All of a
/// type are in one bucket, unless parameters may be unused, for buckets are not rebuilt then.
BucketIndices firstBuckets(const std::vector<Param>& params, const DataParallelOptions& options) {
  std::vector<std::size_t> limits = options.bucketBytesCapList;
  if (limits.empty()) {
    limits = options.findUnusedParameters && !options.staticGraph
                 ? std::vector{options.firstBucketBytesCap, options.bucketBytesCap}
                 : std::vector{std::numeric_limits<std::size_t>::max()};
  }
  BucketIndices buckets = computeBucketAssignmentBySize(valuesOf(params), limits).buckets;
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

}  // namespace

DataParallel::DataParallel(const Group& group, std::vector<Param> params,
                           const DataParallelOptions& options)
    : params_(std::move(params)), gradients_(std::make_unique<GradBuffers>(params_.size())) {
  verifyParams(group, params_);  // first: where one rank is wrong, the others must not wait for it
  UNISONO_CHECK(!params_.empty(), "there are no parameters to train");
  for (std::size_t i = 0; i < params_.size(); ++i) {
    UNISONO_CHECK(params_[i].value.defined(), describe(params_[i], i), " is no tensor");
  }
  if (options.broadcastParameters) {
    broadcastCoalesced(group, valuesOf(params_));
  }
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const Tensor& value = params_[i].value;
    gradients_->set(i, ddp::viewLike(value, ddp::ordinaryMemory(value.numel(), value.dtype()), 0));
  }
  reducer_ =
      std::make_unique<Reducer>(group, params_, firstBuckets(params_, options), *gradients_,
                                ReducerOptions{.bucketBytesCap = options.bucketBytesCap,
                                               .firstBucketBytesCap = options.firstBucketBytesCap,
                                               .bucketBytesCapList = options.bucketBytesCapList,
                                               .findUnusedParameters = options.findUnusedParameters,
                                               .markMissingAsUnused = options.findUnusedParameters,
                                               .gradientAsBucketView = options.gradientAsBucketView,
                                               .staticGraph = options.staticGraph});
  logger_ = std::make_shared<Logger>(*reducer_);
  reducer_->setLogger(logger_);
  logger_->setConstructionDataAndLog({.moduleName = options.moduleName});
}

DataParallel::~DataParallel() = default;

void DataParallel::begin(bool sync) {
  if (sync) {
    logger_->setRuntimeStatsAndLog();
    reducer_->prepareForForward();
  }
  reducer_->rebuildBuckets();
  reducer_->beginBackward({}, sync);
}

Tensor DataParallel::grad(std::size_t index) const {
  return gradients_->grad(index);
}

Tensor DataParallel::gradOf(std::size_t index, DType type) const {
  const Tensor tensor = gradients_->grad(index);
  UNISONO_CHECK(tensor.dtype() == type, "the gradient of ", describe(params_[index], index), " is ",
                tensor.describe(), ", not of ", name(type));
  return tensor;
}

void DataParallel::zeroGrad() {
  for (std::size_t i = 0; i < params_.size(); ++i) {
    ddp::clearElements(gradients_->grad(i));
  }
}

void DataParallel::ready(std::size_t index) {
  reducer_->markReady(index);
}

void DataParallel::finish() {
  reducer_->finish();
}

}  // namespace unisono

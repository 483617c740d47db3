#include "unisono/ddp/data_parallel.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "unisono/ddp/broadcast_coalesced.hpp"

#include "base/check.hpp"
#include "ddp/memory.hpp"
#include "ddp/sparse.hpp"

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
  BucketIndices buckets =
      computeBucketAssignmentBySize(valuesOf(params), limits, options.expectSparseGradients)
          .buckets;
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

}  // namespace

DataParallel::DataParallel(const Group& group, std::vector<Param> params,
                           const DataParallelOptions& options)
    : params_(std::move(params)),
      sparse_(options.expectSparseGradients),
      gradients_(std::make_unique<GradBuffers>(params_.size())) {
  verifyParams(group, params_);  // first: where one rank is wrong, the others must not wait for it
  UNISONO_CHECK(!params_.empty(), "there are no parameters to train");
  for (std::size_t i = 0; i < params_.size(); ++i) {
    UNISONO_CHECK(params_[i].value.defined(), describe(params_[i], i), " is no tensor");
  }
  if (options.broadcastParameters) {
    broadcastCoalesced(group, valuesOf(params_));
  }
  UNISONO_CHECK(sparse_.empty() || sparse_.size() == params_.size(), "there are ", params_.size(),
                " parameters, but it is said of ", sparse_.size(),
                " whether their gradients are sparse");
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const Tensor& value = params_[i].value;
    if (isSparse(i)) {
      gradients_->setSparse(i, ddp::noEntries(value, 1));
    } else {
      gradients_->set(i,
                      ddp::viewLike(value, ddp::ordinaryMemory(value.numel(), value.dtype()), 0));
    }
  }
  reducer_ = std::make_unique<Reducer>(
      group, params_, firstBuckets(params_, options), *gradients_,
      ReducerOptions{.bucketBytesCap = options.bucketBytesCap,
                     .firstBucketBytesCap = options.firstBucketBytesCap,
                     .bucketBytesCapList = options.bucketBytesCapList,
                     .findUnusedParameters = options.findUnusedParameters,
                     .markMissingAsUnused = options.findUnusedParameters,
                     .gradientAsBucketView = options.gradientAsBucketView,
                     .staticGraph = options.staticGraph,
                     .expectSparseGradients = options.expectSparseGradients});
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

bool DataParallel::isSparse(std::size_t index) const {
  return !sparse_.empty() && sparse_[index];
}

void DataParallel::requireSparse(std::size_t index, bool isExpected) const {
  UNISONO_CHECK(index < params_.size(), "there is no gradient ", index, " among ", params_.size());
  UNISONO_CHECK(isSparse(index) == isExpected, "the gradients of ", describe(params_[index], index),
                isExpected ? " were not said to be sparse" : " are sparse: they have entries");
}

Tensor DataParallel::grad(std::size_t index) const {
  requireSparse(index, false);
  return gradients_->grad(index);
}

void DataParallel::setSparseGrad(std::size_t index, SparseTensor gradient) {
  requireSparse(index, true);
  gradients_->setSparse(index, std::move(gradient));
}

SparseTensor DataParallel::sparseGrad(std::size_t index) const {
  requireSparse(index, true);
  return gradients_->sparseGrad(index);
}

Tensor DataParallel::gradOf(std::size_t index, DType type) const {
  const Tensor tensor = grad(index);
  UNISONO_CHECK(tensor.dtype() == type, "the gradient of ", describe(params_[index], index), " is ",
                tensor.describe(), ", not of ", name(type));
  return tensor;
}

void DataParallel::zeroGrad() {
  for (std::size_t i = 0; i < params_.size(); ++i) {
    if (isSparse(i)) {
      gradients_->setSparse(i, ddp::noEntries(params_[i].value, 1));
    } else {
      ddp::clearElements(gradients_->grad(i));
    }
  }
}

void DataParallel::ready(std::size_t index) {
  reducer_->markReady(index);
}

void DataParallel::finish() {
  reducer_->finish();
}

}  // namespace unisono

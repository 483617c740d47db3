// Steps in which not every rank has something to reduce.
#include <utility>

#include "base/check.hpp"
#include "ddp/reducer_impl.hpp"
#include "ddp/sparse.hpp"

namespace unisono {
namespace {

/// The first element of what the future gives.
std::int64_t firstElement(const Future& future) {
  const TensorList& value = future.value();
  UNISONO_CHECK(value.size() > 0 && value[0].defined() && value[0].numel() > 0,
                "the number of ranks that have inputs is no tensor");
  switch (value[0].dtype()) {
    case DType::INT32:
      return *value[0].dataAs<const std::int32_t>();
    case DType::INT64:
      return *value[0].dataAs<const std::int64_t>();
    case DType::FLOAT32:
      return static_cast<std::int64_t>(*value[0].dataAs<const float>());
    default:
      UNISONO_CHECK(false, "the number of ranks that have inputs is ", value[0].describe(),
                    ", but int32, int64 or float32 is expected");
  }
  return 0;
}

}  // namespace

void Reducer::Impl::setForwardPassWorkHandle(Future activeRanks, bool useStaticWorldSize) {
  const MutexLock lock(mutex_);
  UNISONO_CHECK(!divisor_,
                "setForwardPassWorkHandle() was called when gradients were reduced "
                "already: call it before the first is ready");
  activeRanks_.reset();
  if (!useStaticWorldSize) {
    activeRanks_ = std::move(activeRanks);
  }
}

int Reducer::Impl::divisor() {
  std::optional<Future> active;
  {
    const MutexLock lock(mutex_);
    if (divisor_) {
      return *divisor_;
    }
    active = activeRanks_;
  }
  std::int64_t ranks = group_.size();
  if (active) {
    active->wait();
    ranks = firstElement(*active);
    UNISONO_CHECK(ranks >= 1 && ranks <= group_.size(), "gradients cannot be divided by ", ranks,
                  ", which should be a number of ranks among ", group_.size());
  }
  const MutexLock lock(mutex_);
  divisor_ = static_cast<int>(ranks);
  return *divisor_;
}

void Reducer::Impl::shadowStep() {
  requireNoStep("shadowStep()");
  std::vector<ddp::Bucket> zeros;
  try {
    zeros = ddp::makeBuckets(group_, params_, buckets(), options_.expectSparseGradients);
  } catch (const DistError&) {
    failForAll(std::current_exception());
    throw;
  }
  beginBackward({}, true);
  // Not the buckets themselves: gradients of this rank may be views of them.
  shadowed_ = std::exchange(buckets_, std::move(zeros));
  {
    const MutexLock lock(mutex_);
    marked_ = true;
    if (looksForUnused()) {
      used_.clear();
    }
    for (std::size_t index = 0; index < params_.size(); ++index) {
      order_.arrive(index);
      order_.place(index);
    }
  }
  finish();
}

SparseTensor Reducer::Impl::sparseToReduce(std::size_t index) {
  if (shadowed_) {
    return ddp::noEntries(params_[index].value, sparseDims_[index]);
  }
  SparseTensor grad = host_.sparseGrad(index);
  sparseDims_[index] = grad.indices.sizes()[0];
  return grad;
}

}  // namespace unisono

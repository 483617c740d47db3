#include "unisono/ddp/reducer.hpp"

#include <utility>

#include "base/check.hpp"
#include "ddp/average.hpp"
#include "ddp/host_time.hpp"
#include "ddp/memory.hpp"
#include "ddp/reducer_impl.hpp"
#include "ddp/sparse.hpp"

namespace unisono {

Reducer::Reducer(Group group, std::vector<Param> params, BucketIndices buckets, GradHost& host,
                 ReducerOptions options)
    : impl_(std::make_unique<Impl>(std::move(group), std::move(params), std::move(buckets), host,
                                   std::move(options))) {}

Reducer::~Reducer() = default;

void Reducer::registerCommHook(std::shared_ptr<CommHook> hook) {
  impl_->loggingErrors([&] { return impl_->registerCommHook(std::move(hook)); });
}

void Reducer::registerBuiltinCommHook(BuiltinCommHookType type) {
  impl_->loggingErrors([&] { return impl_->registerBuiltinCommHook(type); });
}

bool Reducer::rebuildBuckets() {
  return impl_->loggingErrors([&] { return impl_->rebuildBuckets(); });
}

void Reducer::beginBackward(std::span<const std::size_t> unused, bool sync) {
  impl_->loggingErrors([&] { return impl_->beginBackward(unused, sync); });
}

Ready Reducer::markReady(std::size_t index) {
  return impl_->loggingErrors([&] { return impl_->markReady(index); });
}

void Reducer::finish() {
  impl_->loggingErrors([&] { return impl_->finish(); });
}

void Reducer::checkFinalized() const {
  impl_->loggingErrors([&] { return impl_->checkFinalized(); });
}

void Reducer::shadowStep() {
  impl_->loggingErrors([&] { return impl_->shadowStep(); });
}

void Reducer::setForwardPassWorkHandle(Future activeRanks, bool useStaticWorldSize) {
  impl_->setForwardPassWorkHandle(std::move(activeRanks), useStaticWorldSize);
}

void Reducer::resetState(std::optional<Group> group) {
  impl_->loggingErrors([&] { return impl_->resetState(std::move(group)); });
}

BucketIndices Reducer::buckets() const {
  return impl_->buckets();
}

std::vector<GradBucket> Reducer::zeroBuckets() const {
  return impl_->zeroBuckets();
}

bool Reducer::hasRebuiltBuckets() const {
  return impl_->hasRebuiltBuckets();
}

std::vector<std::size_t> Reducer::gradReadyOrder() const {
  return impl_->gradReadyOrder();
}

std::vector<std::int32_t> Reducer::usedMap() const {
  return impl_->usedMap();
}

void Reducer::setLogger(const std::shared_ptr<Logger>& logger) {
  impl_->setLogger(logger);
}

std::shared_ptr<Logger> Reducer::logger() const {
  return impl_->logger();
}

void Reducer::setRuntimeLoggingSampleRate(int rate) {
  impl_->setRuntimeLoggingSampleRate(rate);
}

void Reducer::prepareForForward() {
  impl_->prepareForForward();
}

bool Reducer::isGraphStatic() const {
  return impl_->isGraphStatic();
}

std::vector<std::int64_t> Reducer::backwardStats() const {
  return impl_->backwardStats();
}

bool Reducer::isSampled() const {
  return impl_->isSampled();
}

ReducerStats Reducer::stats() const {
  return impl_->stats();
}

const Group& Reducer::group() const noexcept {
  return impl_->group();
}

std::span<const Param> Reducer::params() const noexcept {
  return impl_->params();
}

const ReducerOptions& Reducer::options() const noexcept {
  return impl_->options();
}

void Reducer::Impl::beginBackward(std::span<const std::size_t> unused, bool sync) {
  for (const std::size_t index : unused) {
    UNISONO_CHECK(index < params_.size(), "parameter ", index, " cannot be unused: there are ",
                  params_.size());
    UNISONO_CHECK(!isSparse(index), describe(params_[index], index),
                  " cannot be unused: its gradients are sparse, and Expected sparse gradient to be "
                  "defined.");
  }
  UNISONO_CHECK(unused.empty() || options_.findUnusedParameters || options_.staticGraph,
                "unused parameters were named, but findUnusedParameters is not set: other ranks "
                "would not learn of them");
  const MutexLock lock(mutex_);
  if (step_ == Step::SYNCING && marked_) {
    throw ddp::unfinishedBefore(place(), missing());
  }
  step_ = sync ? Step::SYNCING : Step::ACCUMULATING;
  if (!sync) {
    return;
  }
  backwardStart_ = ddp::hostNanoseconds();
  note(StepEvent::BACKWARD_COMPUTE_START);
  order_.open();
  marked_ = false;
  readyOrder_.clear();
  futures_.assign(buckets_.size(), std::nullopt);
  remaining_ = marks_;
  saidUnused_.assign(params_.size(), false);
  if (options_.staticGraph) {
    for (std::size_t index = 0; index < params_.size(); ++index) {
      saidUnused_[index] = !isFirstStatic() && marks_[index] == 0;
    }
  } else {
    for (const std::size_t index : unused) {
      saidUnused_[index] = true;
    }
  }
  unused_.clear();
  for (std::size_t index = 0; index < params_.size(); ++index) {
    if (saidUnused_[index]) {
      unused_.push_back(index);
    }
  }
}

Ready Reducer::Impl::markReady(std::size_t index) {
  UNISONO_CHECK(index < params_.size(), "there is no parameter ", index, " among ", params_.size());
  const bool hasGrad = hasGradient(index);
  std::vector<std::size_t> arrived;
  {
    const MutexLock lock(mutex_);
    UNISONO_CHECK(step_ != Step::NONE, describe(params_[index], index),
                  " was marked as ready outside a step: beginBackward() opens one, finish() ends "
                  "it, and a gradient that comes later is not reduced");
    if (looksForUnused() && hasGrad) {
      used_.use(index);
    }
    if (step_ == Step::ACCUMULATING) {
      return Ready::IGNORED;
    }
    arrived = takeArrivals(index);
  }
  if (arrived.empty()) {
    return Ready::PENDING;
  }
  fillSlots(arrived);
  return launchFull();
}

std::vector<std::size_t> Reducer::Impl::takeArrivals(std::size_t index) {
  if (options_.staticGraph && !isCompleteByCount(index)) {
    marked_ = true;
    return {};
  }
  if (order_.hasArrived(index) || saidUnused_[index]) {
    throw ddp::markedTwice(place(), index, saidUnused_[index]);
  }
  marked_ = true;
  readyOrder_.push_back(index);
  std::vector<std::size_t> arrived = takeUnused();
  order_.arrive(index);
  arrived.push_back(index);
  return arrived;
}

/// Parameters that were said to be unused come with the first that is not: before it, nobody knows
/// whether there will be any.
std::vector<std::size_t> Reducer::Impl::takeUnused() {
  std::vector<std::size_t> arrived;
  for (const std::size_t index : std::exchange(unused_, {})) {
    if (order_.arrive(index)) {
      arrived.push_back(index);
    }
  }
  return arrived;
}

/// Static graph: whether this was the last mark of the parameter in this step.
bool Reducer::Impl::isCompleteByCount(std::size_t index) {
  if (isFirstStatic()) {
    ++marks_[index];
    return false;
  }
  if (remaining_[index] == 0) {
    throw ddp::graphChanged(place(), index);
  }
  return --remaining_[index] == 0;
}

void Reducer::Impl::checkGradient(std::size_t index, const Tensor& grad) const {
  const Tensor& value = params_[index].value;
  UNISONO_CHECK(!grad.defined() || (grad.dtype() == value.dtype() && grad.sizes() == value.sizes()),
                "the gradient of ", describe(params_[index], index),
                " does not look like it: ", "Expected ", value.describe(), ", got ",
                grad.defined() ? grad.describe() : std::string());
}

bool Reducer::Impl::hasGradient(std::size_t index) const {
  if (isSparse(index)) {
    ddp::checkSparse(group_, params_[index], index, host_.sparseGrad(index));
    return true;
  }
  const Tensor grad = host_.grad(index);
  checkGradient(index, grad);
  return grad.defined();
}

void Reducer::Impl::fillSlot(std::size_t index) {
  if (isSparse(index)) {
    return;  // it is reduced from where it is
  }
  const ddp::Locator at = places_[index];
  const Tensor& slot = buckets_[at.bucket].views[at.position];
  const Tensor grad = host_.grad(index);
  checkGradient(index, grad);
  if (!grad.defined()) {
    ddp::clearElements(slot);  // it has what was reduced last
    return;
  }
  if (!ddp::isSameView(grad, slot)) {
    ddp::copyElements(slot, grad);
    if (options_.gradientAsBucketView) {
      host_.adopt(index, slot);
    }
  }
  const MutexLock lock(mutex_);
  if (options_.gradientAsBucketView && looksForUnused() && !used_.usedHere(index)) {
    const Tensor copy = ddp::viewLike(slot, ddp::ordinaryMemory(slot.numel(), slot.dtype()), 0);
    ddp::copyElements(copy, slot);
    saved_[index] = copy;
  }
}

void Reducer::Impl::fillSlots(const std::vector<std::size_t>& params) {
  const std::int64_t ready = ddp::hostNanoseconds();
  try {
    for (const std::size_t index : params) {
      fillSlot(index);
    }
  } catch (...) {  // what the host throws may be anything
    failForAll(std::current_exception());
    throw;
  }
  const MutexLock lock(mutex_);
  for (const std::size_t index : params) {
    order_.place(index);
    backwardStats_[index] = ready - backwardStart_;
  }
}

Ready Reducer::Impl::launchFull() {
  bool launchedAny = false;
  for (;;) {  // ends when the next bucket is not full
    std::size_t bucket = 0;
    bool isReduced = true;
    {
      const MutexLock lock(mutex_);
      const std::optional<std::size_t> claimed = order_.claim();
      if (!claimed) {
        return !launchedAny           ? Ready::PENDING
               : order_.allLaunched() ? Ready::ALL_LAUNCHED
                                      : Ready::BUCKET_LAUNCHED;
      }
      bucket = *claimed;
      isReduced = !isSkipped(bucket);
      if (bucket == 0) {
        note(StepEvent::BACKWARD_COMM_START);
      }
    }
    const std::optional<Future> future = isReduced ? std::optional(launch(bucket)) : std::nullopt;
    launchedAny = true;
    bool isLast = false;
    {
      const MutexLock lock(mutex_);
      futures_[bucket] = future;
      order_.launched();
      isLast = order_.allLaunched();
    }
    if (isLast && looksForUnused()) {
      tellUse();
    }
  }
}

bool Reducer::Impl::isSkipped(std::size_t bucket) const {
  for (const std::size_t index : buckets_[bucket].params) {
    if (!saidUnused_[index]) {
      return false;
    }
  }
  return options_.skipAllReduceUnusedParams;
}

Future Reducer::Impl::launch(std::size_t bucket) {
  try {
    if (buckets_[bucket].isSparse) {
      return ddp::startSparseSum(group_, sparseToReduce(buckets_[bucket].params[0]), divisor());
    }
    if (!hook_) {
      return ddp::startAverage(group_, buckets_[bucket].buffer, divisor());
    }
    GradBucket forHook = buckets_[bucket].forHook(bucket, buckets_.size(), params_);
    return hook_->run(forHook);
  } catch (...) {
    const std::exception_ptr error = ddp::hookError(place(), bucket, std::current_exception());
    failForAll(error);
    const MutexLock lock(mutex_);
    order_.launched();
    std::rethrow_exception(error);
  }
}

void Reducer::Impl::tellUse() {
  Tensor row;
  {
    const MutexLock lock(mutex_);
    row = used_.tell();
  }
  try {
    const Future sum = group_.processGroup().allreduce(row)->getFuture();
    const MutexLock lock(mutex_);
    used_.told(sum);
  } catch (const DistError&) {
    failForAll(std::current_exception());
    throw;
  }
}

void Reducer::Impl::fail(std::exception_ptr error) {
  const MutexLock lock(mutex_);
  order_.stop();
  if (!failure_) {
    failure_ = std::move(error);
  }
}

void Reducer::Impl::failForAll(std::exception_ptr error) {
  fail(error);
  if (group_.size() > 1) {
    group_.processGroup().abort(std::move(error));
  }
}

}  // namespace unisono

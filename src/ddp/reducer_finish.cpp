// The end of a step.
#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "base/check.hpp"
#include "ddp/memory.hpp"
#include "ddp/reducer_impl.hpp"
#include "ddp/sparse.hpp"

namespace unisono {
namespace {

/// A wait was left by what is neither its error nor its end, such as Ctrl-C of a Python program.
struct Interrupted {
  std::exception_ptr by;
};

void await(const Future& future, std::chrono::milliseconds timeout = kNoTimeout) {
  try {
    future.wait(timeout);
  } catch (const DistError&) {
    throw;
  } catch (...) {  // a hook's future may fail with anything
    if (!future.done()) {
      throw Interrupted{std::current_exception()};
    }
    throw;
  }
}

}  // namespace

void Reducer::Impl::finish() {
  {
    const MutexLock lock(mutex_);
    UNISONO_CHECK(step_ != Step::NONE, "finish() was called outside a step");
    UNISONO_CHECK(!order_.isLaunching(),
                  "finish() was called while markReady() runs on another thread");
    if (step_ == Step::ACCUMULATING) {
      step_ = Step::NONE;
      return;
    }
    note(StepEvent::BACKWARD_COMPUTE_END);
  }
  markWhatIsLeft();
  const std::exception_ptr missed = reportMissing();
  const std::exception_ptr failed = collect(missed ? missed : failure());
  if (missed) {
    failForAll(missed);  // only now: what was launched, other ranks have launched too
  }
  close(failed == nullptr);
  if (failed) {
    std::rethrow_exception(failed);
  }
  tellIfGraphChanges();
}

/// Marks what nobody marks: in the first step of a static graph all parameters, else unused ones.
void Reducer::Impl::markWhatIsLeft() {
  std::vector<std::size_t> left;
  {
    const MutexLock lock(mutex_);
    left = takeUnused();
    if (isFirstStatic() || (options_.markMissingAsUnused && !options_.staticGraph)) {
      for (const std::size_t index : order_.missing()) {
        if (isSparse(index) && marks_[index] == 0) {
          continue;  // it cannot be unused: it is missing
        }
        order_.arrive(index);
        left.push_back(index);
        saidUnused_[index] = !isFirstStatic();
      }
    }
  }
  try {
    fillSlots(left);
    launchFull();
  } catch (...) {  // of a hook, or of the host: kept by fail(), and thrown when all is waited for
    fail(std::current_exception());
  }
}

ddp::Missing Reducer::Impl::missing() const {
  return {.params = order_.missing(),
          .bucket = order_.next(),
          .buckets = buckets_.size(),
          .findsUnused = options_.findUnusedParameters,
          .isStatic = options_.staticGraph};
}

std::exception_ptr Reducer::Impl::reportMissing() {
  const MutexLock lock(mutex_);
  if (order_.allLaunched() || failure_) {
    return nullptr;
  }
  return std::make_exception_ptr(ddp::unfinished(place(), missing()));
}

std::exception_ptr Reducer::Impl::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

std::exception_ptr Reducer::Impl::collect(std::exception_ptr failed) {
  std::vector<std::optional<Future>> futures;
  {
    const MutexLock lock(mutex_);
    futures = futures_;
  }
  const auto attempt = [&failed](const auto& part) {
    try {
      part();
    } catch (const Interrupted& interrupted) {  // the step stays open
      std::rethrow_exception(interrupted.by);
    } catch (...) {  // a hook's future may fail with anything
      failed = failed ? failed : std::current_exception();
    }
  };
  for (std::size_t bucket = 0; bucket < futures.size(); ++bucket) {
    if (const std::optional<Future>& future = futures[bucket]) {
      attempt([&] { collectBucket(bucket, *future, !failed && !shadowed_); });
    }
  }
  attempt([&] { hearUse(); });
  return failed;
}

void Reducer::Impl::collectBucket(std::size_t bucket, const Future& future, bool write) {
  if (buckets_[bucket].isSparse) {
    await(future);
    if (write) {
      const std::size_t index = buckets_[bucket].params[0];
      host_.storeSparse(index, ddp::averageOfSum(future, params_[index].value, divisor()));
    }
    return;
  }
  const Tensor result = resultOf(bucket, future);
  if (write) {
    writeGradients(bucket, result);
  }
}

Tensor Reducer::Impl::resultOf(std::size_t bucket, const Future& future) const {
  const Tensor& buffer = buckets_[bucket].buffer;
  if (!hook_) {
    await(future);  // it has the timeout of the group
    return buffer;
  }
  // What a hook starts may take as long as the group allows, and may wait as long for its turn.
  const auto patience = 2 * group_.processGroup().backend(DeviceType::CPU)->timeout();
  try {
    await(future, patience);
  } catch (const DistTimeoutError&) {
    if (!future.done()) {
      throw ddp::hookTooLate(place(), bucket, patience);
    }
    throw;
  }
  const TensorList& value = future.value();
  if (value.size() != 1) {
    throw ddp::wrongResult(place(), bucket, buffer, str(value.size(), " tensors"));
  }
  const Tensor& result = value[0];
  if (!result.defined() || result.numel() != buffer.numel() || result.dtype() != buffer.dtype() ||
      !result.isContiguous()) {
    throw ddp::wrongResult(place(), bucket, buffer,
                           result.defined() ? result.describe() : "no tensor");
  }
  return result;
}

void Reducer::Impl::writeGradients(std::size_t number, const Tensor& result) {
  const ddp::Bucket& bucket = buckets_[number];
  const bool isElsewhere = result.data() != bucket.buffer.data();
  if (options_.gradientAsBucketView && isElsewhere) {
    ddp::copyElements(bucket.buffer, ddp::viewLike(bucket.buffer, result, 0));
  }
  for (std::size_t at = 0; at < bucket.params.size(); ++at) {
    const std::size_t index = bucket.params[at];
    writeGradient(index, options_.gradientAsBucketView || !isElsewhere
                             ? bucket.views[at]
                             : ddp::viewLike(params_[index].value, result, bucket.offsets[at]));
  }
}

void Reducer::Impl::writeGradient(std::size_t index, const Tensor& view) {
  if (isUnusedEverywhere(index)) {
    const MutexLock lock(mutex_);
    if (const auto saved = saved_.find(index); saved != saved_.end()) {
      ddp::copyElements(view, saved->second);
    }
    return;
  }
  if (!options_.gradientAsBucketView) {
    host_.store(index, view);
    return;
  }
  const Tensor grad = host_.grad(index);
  if (!grad.defined()) {
    host_.adopt(index, view);
    return;
  }
  UNISONO_CHECK(ddp::isSameView(grad, view), "the gradient of ", describe(params_[index], index),
                " was replaced while it was reduced: gradient is not the expected DDP bucket view");
}

bool Reducer::Impl::isUnusedEverywhere(std::size_t index) {
  if (!options_.findUnusedParameters && !options_.staticGraph) {
    return false;
  }
  {
    const MutexLock lock(mutex_);
    if (used_.usedHere(index)) {
      return false;
    }
  }
  hearUse();
  const MutexLock lock(mutex_);
  return !used_.usedAnywhere(index);
}

void Reducer::Impl::hearUse() {
  std::optional<Future> sum;
  {
    const MutexLock lock(mutex_);
    sum = used_.takeSum();
  }
  if (!sum) {
    return;
  }
  try {
    await(*sum);
  } catch (const Interrupted&) {
    const MutexLock lock(mutex_);
    used_.told(*sum);  // it is heard another time
    throw;
  }
}

void Reducer::Impl::close(bool well) {
  const MutexLock lock(mutex_);
  if (well && !shadowed_) {
    note(StepEvent::BACKWARD_COMM_END);
    bucketsReduced_ = static_cast<std::size_t>(
        std::count_if(futures_.begin(), futures_.end(),
                      [](const std::optional<Future>& future) { return future.has_value(); }));
    noteUnused();
  }
  // Where only this rank failed, with what a hook gave, the others count the step: so does it, or
  // it would not rebuild buckets when they do.
  if (well || (order_.allLaunched() && !failure_)) {
    ++synced_;
    learnOrder();
  } else if (isFirstStatic()) {
    marks_.assign(params_.size(), 0);  // it is counted anew
  }
  if (!options_.staticGraph) {
    used_.clear();
  }
  step_ = Step::NONE;
  futures_.clear();
  saved_.clear();
  failure_ = nullptr;
  activeRanks_.reset();
  divisor_.reset();
  if (shadowed_) {
    buckets_ = *std::exchange(shadowed_, std::nullopt);
  }
}

/// How gradients came in the first step; in a static graph, where that says nothing, in the second.
void Reducer::Impl::learnOrder() {
  if (synced_ != (options_.staticGraph ? 2 : 1)) {
    return;
  }
  std::vector<bool> seen(params_.size());
  arrivalOrder_.clear();
  const auto add = [&](std::size_t index) {
    if (!seen[index]) {
      seen[index] = true;
      arrivalOrder_.push_back(index);
    }
  };
  for (const std::size_t index : readyOrder_) {
    add(index);
  }
  for (std::size_t index = 0; index < params_.size(); ++index) {
    add(index);
  }
}

}  // namespace unisono

// What is noted of steps: how many, how long, and what was unused in them.
#include <utility>

#include "base/check.hpp"
#include "ddp/host_time.hpp"
#include "ddp/reducer_impl.hpp"

namespace unisono {
namespace {

constexpr std::int64_t kFirstSampledSteps = 10;

}  // namespace

void Reducer::Impl::setLogger(const std::shared_ptr<Logger>& logger) {
  UNISONO_CHECK(logger != nullptr, "setLogger() was given no logger");
  if (hasLogger_) {
    throw ddp::loggerSetTwice(place());
  }
  hasLogger_ = true;
  logger_ = logger;
  if (builtin_) {
    logger->setCommHook(name(*builtin_));
  }
}

void Reducer::Impl::logError(const DistError& error) const {
  if (const std::shared_ptr<Logger> logger = logger_.lock()) {
    logger->setErrorAndLog(error.what());
  }
}

void Reducer::Impl::setRuntimeLoggingSampleRate(int rate) {
  UNISONO_CHECK(rate >= 1, "one step in ", rate, " cannot be timed: DDP runtime logging sample ",
                "rate should be equal or greater than 1");
  const MutexLock lock(mutex_);
  sampleRate_ = rate;
}

void Reducer::Impl::prepareForForward() {
  const MutexLock lock(mutex_);
  ++iterations_;
  note(StepEvent::FORWARD_START);
}

bool Reducer::Impl::isTimed() const {
  return iterations_ > 0 && (iterations_ <= kFirstSampledSteps || iterations_ % sampleRate_ == 0);
}

void Reducer::Impl::note(StepEvent event) {
  if (isTimed()) {
    timer_.record(event, ddp::hostNanoseconds());
  }
}

void Reducer::Impl::noteUnused() {
  std::vector<bool> unused = saidUnused_;
  if (looksForUnused()) {
    for (std::size_t index = 0; index < params_.size(); ++index) {
      unused[index] = !used_.usedHere(index);
    }
  }
  unusedBytes_ = 0;
  for (std::size_t index = 0; index < params_.size(); ++index) {
    unusedBytes_ += unused[index] ? params_[index].value.bytes() : 0;
  }
  const bool isCompared = options_.findUnusedParameters && !options_.staticGraph;
  if (isCompared && lastUnused_ && *lastUnused_ != unused) {
    graphStatic_ = false;
  }
  lastUnused_ = std::move(unused);
}

void Reducer::Impl::tellIfGraphChanges() {
  const std::shared_ptr<Logger> logger = logger_.lock();
  if (logger && !isGraphStatic()) {
    logger->logIfGraphStatic(false);
  }
}

bool Reducer::Impl::isGraphStatic() const {
  const MutexLock lock(mutex_);
  return graphStatic_;
}

std::vector<std::int64_t> Reducer::Impl::backwardStats() const {
  const MutexLock lock(mutex_);
  return backwardStats_;
}

bool Reducer::Impl::isSampled() const {
  const MutexLock lock(mutex_);
  return isTimed();
}

ReducerStats Reducer::Impl::stats() const {
  const MutexLock lock(mutex_);
  return {.iterations = iterations_,
          .timer = timer_,
          .bucketsReduced = bucketsReduced_,
          .unusedBytes = unusedBytes_,
          .hasRebuiltBuckets = rebuilt_,
          .buckets = buckets(),
          .gradReadyOrder = readyOrder_};
}

}  // namespace unisono

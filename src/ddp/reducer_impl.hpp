// What a Reducer is made of. In five files: marking and launching (reducer.cpp), the end of a step
// (reducer_finish.cpp), what happens between steps (reducer_buckets.cpp), steps without gradients
// of this rank (reducer_join.cpp), and what is noted for those who want to know how long that took
// (reducer_stats.cpp).
#pragma once

#include <cstddef>
#include <exception>
#include <map>
#include <optional>
#include <vector>

#include "unisono/ddp/logger.hpp"
#include "unisono/ddp/reducer.hpp"

#include "base/mutex.hpp"
#include "ddp/bucket.hpp"
#include "ddp/launch_order.hpp"
#include "ddp/step_errors.hpp"
#include "ddp/used_map.hpp"

namespace unisono {

class Reducer::Impl {
 public:
  Impl(Group group, std::vector<Param> params, BucketIndices buckets, GradHost& host,
       ReducerOptions options);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // As in Reducer.
  void registerCommHook(std::shared_ptr<CommHook> hook) UNISONO_EXCLUDES(mutex_);
  void registerBuiltinCommHook(BuiltinCommHookType type) UNISONO_EXCLUDES(mutex_);
  void setLogger(const std::shared_ptr<Logger>& logger) UNISONO_EXCLUDES(mutex_);
  void setRuntimeLoggingSampleRate(int rate) UNISONO_EXCLUDES(mutex_);
  void prepareForForward() UNISONO_EXCLUDES(mutex_);
  bool rebuildBuckets() UNISONO_EXCLUDES(mutex_);
  void beginBackward(std::span<const std::size_t> unused, bool sync) UNISONO_EXCLUDES(mutex_);
  Ready markReady(std::size_t index) UNISONO_EXCLUDES(mutex_);
  void finish() UNISONO_EXCLUDES(mutex_);
  void checkFinalized() const UNISONO_EXCLUDES(mutex_);
  void shadowStep() UNISONO_EXCLUDES(mutex_);
  void setForwardPassWorkHandle(Future activeRanks, bool useStaticWorldSize)
      UNISONO_EXCLUDES(mutex_);
  void resetState(std::optional<Group> group) UNISONO_EXCLUDES(mutex_);
  BucketIndices buckets() const;
  std::vector<GradBucket> zeroBuckets() const;
  bool hasRebuiltBuckets() const { return rebuilt_; }
  std::vector<std::size_t> gradReadyOrder() const UNISONO_EXCLUDES(mutex_);
  std::vector<std::int32_t> usedMap() const UNISONO_EXCLUDES(mutex_);
  bool isGraphStatic() const UNISONO_EXCLUDES(mutex_);
  std::vector<std::int64_t> backwardStats() const UNISONO_EXCLUDES(mutex_);
  bool isSampled() const UNISONO_EXCLUDES(mutex_);
  ReducerStats stats() const UNISONO_EXCLUDES(mutex_);
  std::shared_ptr<Logger> logger() const { return logger_.lock(); }
  const Group& group() const noexcept { return group_; }
  std::span<const Param> params() const noexcept { return params_; }
  const ReducerOptions& options() const noexcept { return options_; }

  /// What `call` returns; what goes wrong in it is told to the logger, too.
  template <typename Call>
  auto loggingErrors(const Call& call) UNISONO_EXCLUDES(mutex_) {
    try {
      return call();
    } catch (const DistError& error) {
      logError(error);
      throw;
    }
  }

 private:
  enum class Step : std::uint8_t { NONE, ACCUMULATING, SYNCING };

  bool isSparse(std::size_t index) const {
    return !options_.expectSparseGradients.empty() && options_.expectSparseGradients[index];
  }
  ddp::StepPlace place() const { return {group_, params_}; }
  bool isFirstStatic() const { return options_.staticGraph && synced_ == 0; }
  /// Whether it is noted in this step which parameters are used.
  bool looksForUnused() const {
    return options_.staticGraph ? isFirstStatic() : options_.findUnusedParameters;
  }

  // Between steps.
  void installHook(std::shared_ptr<CommHook> hook) UNISONO_EXCLUDES(mutex_);
  void requireNoStep(const char* call) UNISONO_EXCLUDES(mutex_);
  void layOut(const BucketIndices& buckets) UNISONO_EXCLUDES(mutex_);
  void adoptGradients();
  BucketIndices orderedByArrival() const;

  // Marking and launching. No hook runs under the lock, and nothing is copied but what is saved.
  std::vector<std::size_t> takeArrivals(std::size_t index) UNISONO_REQUIRES(mutex_);
  std::vector<std::size_t> takeUnused() UNISONO_REQUIRES(mutex_);
  bool isCompleteByCount(std::size_t index) UNISONO_REQUIRES(mutex_);
  void checkGradient(std::size_t index, const Tensor& grad) const;
  /// Whether there is one, after a look at it.
  bool hasGradient(std::size_t index) const;
  void fillSlot(std::size_t index) UNISONO_EXCLUDES(mutex_);
  void fillSlots(const std::vector<std::size_t>& params) UNISONO_EXCLUDES(mutex_);
  Ready launchFull() UNISONO_EXCLUDES(mutex_);
  /// Whether nobody is said to use anything of the bucket, and it need not be reduced then.
  bool isSkipped(std::size_t bucket) const UNISONO_REQUIRES(mutex_);
  Future launch(std::size_t bucket) UNISONO_EXCLUDES(mutex_);
  SparseTensor sparseToReduce(std::size_t index);
  /// What sums of this step are divided by; the first call may have to wait for the other ranks.
  int divisor() UNISONO_EXCLUDES(mutex_);
  void tellUse() UNISONO_EXCLUDES(mutex_);
  /// The step has failed: nothing more is launched. The first failure counts.
  void fail(std::exception_ptr error) UNISONO_EXCLUDES(mutex_);
  /// The same, and no rank waits for what this one does not start.
  void failForAll(std::exception_ptr error) UNISONO_EXCLUDES(mutex_);

  // The end of a step.
  void markWhatIsLeft() UNISONO_EXCLUDES(mutex_);
  std::exception_ptr reportMissing() UNISONO_EXCLUDES(mutex_);
  ddp::Missing missing() const UNISONO_REQUIRES(mutex_);
  std::exception_ptr failure() const UNISONO_EXCLUDES(mutex_);
  /// Waits for all that was launched, and writes gradients as long as nothing has failed.
  std::exception_ptr collect(std::exception_ptr failed) UNISONO_EXCLUDES(mutex_);
  void collectBucket(std::size_t bucket, const Future& future, bool write) UNISONO_EXCLUDES(mutex_);
  Tensor resultOf(std::size_t bucket, const Future& future) const;
  void writeGradients(std::size_t bucket, const Tensor& result) UNISONO_EXCLUDES(mutex_);
  void writeGradient(std::size_t index, const Tensor& view) UNISONO_EXCLUDES(mutex_);
  bool isUnusedEverywhere(std::size_t index) UNISONO_EXCLUDES(mutex_);
  /// Waits until the ranks have told each other what they use, if they are about to.
  void hearUse() UNISONO_EXCLUDES(mutex_);
  void close(bool well) UNISONO_EXCLUDES(mutex_);
  void learnOrder() UNISONO_REQUIRES(mutex_);

  // Notes.
  void logError(const DistError& error) const;
  bool isTimed() const UNISONO_REQUIRES(mutex_);
  /// It happens now, in a step that may be timed.
  void note(StepEvent event) UNISONO_REQUIRES(mutex_);
  /// What was unused, in a step that ends well.
  void noteUnused() UNISONO_REQUIRES(mutex_);
  void tellIfGraphChanges() UNISONO_EXCLUDES(mutex_);

  const std::vector<Param> params_;
  GradHost& host_;
  const ReducerOptions options_;

  // Changed between steps only, when there is one thread.
  Group group_;
  std::shared_ptr<CommHook> hook_;
  std::optional<BuiltinCommHookType> builtin_;  // which hook it is, if it is one of ours
  bool hasLogger_ = false;                      // it may have gone meanwhile
  std::weak_ptr<Logger> logger_;
  std::vector<ddp::Bucket> buckets_;
  // While zeros are reduced in their place; they come back at the end of the step.
  std::optional<std::vector<ddp::Bucket>> shadowed_;
  std::vector<ddp::Locator> places_;
  bool rebuilt_ = false;
  int synced_ = 0;                         // steps that were reduced
  std::vector<std::size_t> arrivalOrder_;  // of the step by which buckets are rebuilt
  std::vector<int> marks_;                 // static graph: how often each is marked
  std::vector<std::int64_t> sparseDims_;   // of the last sparse gradient of each

  mutable Mutex mutex_;
  Step step_ UNISONO_GUARDED_BY(mutex_) = Step::NONE;
  ddp::LaunchOrder order_ UNISONO_GUARDED_BY(mutex_);
  bool marked_ UNISONO_GUARDED_BY(mutex_) = false;  // something was, in this step
  std::vector<std::size_t> readyOrder_ UNISONO_GUARDED_BY(mutex_);
  std::vector<std::size_t> unused_ UNISONO_GUARDED_BY(mutex_);  // said to be, and not marked yet
  std::vector<bool> saidUnused_ UNISONO_GUARDED_BY(mutex_);
  std::vector<int> remaining_ UNISONO_GUARDED_BY(mutex_);  // static graph: marks until it is ready
  std::vector<std::optional<Future>> futures_ UNISONO_GUARDED_BY(mutex_);  // by bucket
  std::exception_ptr failure_ UNISONO_GUARDED_BY(mutex_);
  std::optional<Future> activeRanks_ UNISONO_GUARDED_BY(mutex_);  // by which sums are divided
  std::optional<int> divisor_ UNISONO_GUARDED_BY(mutex_);         // in this step, once it is needed
  // Gradients in their buckets that come back if nobody uses the parameter.
  std::map<std::size_t, Tensor> saved_ UNISONO_GUARDED_BY(mutex_);
  ddp::UsedMap used_ UNISONO_GUARDED_BY(mutex_);

  // Notes.
  int sampleRate_ UNISONO_GUARDED_BY(mutex_) = 100;
  std::int64_t iterations_ UNISONO_GUARDED_BY(mutex_) = 0;
  StepTimer timer_ UNISONO_GUARDED_BY(mutex_);
  std::int64_t backwardStart_ UNISONO_GUARDED_BY(mutex_) = 0;
  std::vector<std::int64_t> backwardStats_ UNISONO_GUARDED_BY(mutex_);
  std::size_t bucketsReduced_ UNISONO_GUARDED_BY(mutex_) = 0;
  std::optional<std::vector<bool>> lastUnused_ UNISONO_GUARDED_BY(mutex_);
  std::size_t unusedBytes_ UNISONO_GUARDED_BY(mutex_) = 0;
  bool graphStatic_ UNISONO_GUARDED_BY(mutex_) = true;
};

}  // namespace unisono

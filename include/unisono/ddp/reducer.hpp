// Reducer: makes gradients the average over all ranks, while later ones are still computed.
//
//   GradBuffers gradients(params.size());
//   Reducer reducer(world, params, {{2, 3}, {0, 1}}, gradients);
//   for (…) {
//     reducer.rebuildBuckets();
//     reducer.beginBackward();
//     for (std::size_t i : lastToFirst) {
//       gradients.set(i, backward(i));
//       reducer.markReady(i);             // a bucket that is full with it is reduced from here on
//     }
//     reducer.finish();                   // every gradient is the average now
//   }
//
// Buckets are reduced in their order on every rank, in whatever order gradients come: that is what
// keeps the ranks together. So a gradient that does not come holds up all later buckets. After the
// first step rebuildBuckets() orders them anew, by how the gradients of rank 0 came.
//
// A step in which this rank did not start what the others wait for (a gradient is missing, a hook
// threw) ends with an error on all ranks: the group is aborted, and they are told why. Then make a
// new group, and give it to resetState().
//
// Thread safety: markReady() may be called from several threads at once. All else is for one thread
// at a time, finish() after all calls of markReady() have returned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "unisono/base/api.hpp"
#include "unisono/ddp/bucket_assignment.hpp"
#include "unisono/ddp/comm_hook.hpp"
#include "unisono/ddp/grad_host.hpp"
#include "unisono/ddp/params.hpp"
#include "unisono/ddp/step_timer.hpp"
#include "unisono/group/group.hpp"

namespace unisono {

class Logger;

inline constexpr std::size_t kDefaultBucketBytesCap = std::size_t{25} << 20;
inline constexpr std::size_t kDefaultFirstBucketBytes = std::size_t{1} << 20;

struct ReducerOptions {
  /// When buckets are rebuilt the first is closed at `firstBucketBytesCap`, all others at
  /// `bucketBytesCap`; or as the list says, if there is one.
  std::size_t bucketBytesCap = kDefaultBucketBytesCap;
  std::size_t firstBucketBytesCap = kDefaultFirstBucketBytes;
  std::vector<std::size_t> bucketBytesCapList = {};
  /// The ranks tell each other which parameters they used: what nobody used keeps its gradient, or
  /// the lack of one. Buckets are not rebuilt then.
  bool findUnusedParameters = false;
  /// With it, finish() takes parameters that were not marked for unused ones.
  bool markMissingAsUnused = false;
  /// A bucket whose parameters are all unused on this rank is not reduced. Only for ranks that
  /// leave the same parameters unused in each step: others are told (MISMATCH). Not for those of a
  /// Join.
  bool skipAllReduceUnusedParams = false;
  /// Gradients are views of the buckets: nothing is copied, and there is no memory beside them.
  bool gradientAsBucketView = false;
  /// Every step marks the same parameters equally often. The first one is reduced at its end only;
  /// then a parameter is ready when it was marked as often as in the first, or was never.
  bool staticGraph = false;
  /// By parameter, whether its gradients are sparse; empty for none. Such a parameter has a bucket
  /// of its own, and a gradient in every step, of which its values and places are reduced.
  std::vector<bool> expectSparseGradients = {};
};

/// What a call of markReady() led to.
enum class Ready : std::uint8_t {
  PENDING,          // its bucket is not full, or its turn has not come
  BUCKET_LAUNCHED,  // at least one bucket is being reduced since
  ALL_LAUNCHED,     // all are: it is time for finish()
  IGNORED,          // this step accumulates only
};

/// What a Reducer has done, between two steps.
struct ReducerStats {
  std::int64_t iterations = 0;  // calls of prepareForForward()
  StepTimer timer = {};         // of the last step that was
  std::size_t bucketsReduced = 0;
  std::size_t unusedBytes = 0;  // of parameters that this rank did not use
  bool hasRebuiltBuckets = false;
  BucketIndices buckets = {};
  std::vector<std::size_t> gradReadyOrder = {};
};

class UNISONO_API Reducer {
 public:
  /// `buckets` has every parameter once, and in one bucket only those of one type and device. The
  /// host must outlive the reducer. All ranks give the same, see verifyParams(). Throws UsageError
  /// for what does not fit, and for parameters that have no average; DistError (RESOURCE).
  Reducer(Group group, std::vector<Param> params, BucketIndices buckets, GradHost& host,
          ReducerOptions options = {});
  /// What is under way goes on by itself.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// Once in its life, between steps. UsageError otherwise, and where gradients are sparse, of
  /// which hooks know nothing; but ALLREDUCE is what happens to them.
  void registerCommHook(std::shared_ptr<CommHook> hook);
  void registerBuiltinCommHook(BuiltinCommHookType type);

  /// Who is told of errors, and whether the graph could be static; once in its life, UsageError
  /// otherwise. It is not kept alive.
  void setLogger(const std::shared_ptr<Logger>& logger);
  /// Null when there is none, or no more.
  std::shared_ptr<Logger> logger() const;
  /// After the first ten steps one in `rate` is timed; 100 at first. UsageError below 1.
  void setRuntimeLoggingSampleRate(int rate);

  /// A step that will be reduced begins, with what comes before gradients are computed. It is
  /// counted and, now and then, timed; who is not interested in times need not call it.
  void prepareForForward();

  /// Between steps, on all ranks alike: orders buckets by how gradients came, once, when that is
  /// known. Whether it did. Where gradients are views of the buckets, they are elsewhere then.
  bool rebuildBuckets();

  /// Opens a step. `unused`: parameters that will get no gradient on this rank, if that is known.
  /// With `sync` false gradients add up on this rank only; what is used counts for the next step
  /// that is reduced. A step that was opened, but in which nothing was marked, is forgotten.
  void beginBackward(std::span<const std::size_t> unused = {}, bool sync = true);

  /// Gradient `index` is complete; it may be none. It must not change until finish(). Throws
  /// UsageError when it is no parameter, was marked in this step already, or does not look like its
  /// parameter; and what a hook throws. Waits for no rank.
  Ready markReady(std::size_t index);

  /// Ends the step: waits for all buckets and writes gradients. Throws what the first bucket failed
  /// with, and UsageError when parameters are missing, naming them. The step is over then, too;
  /// only where the wait is interrupted (by Ctrl-C in Python) it is not, and this is called again.
  void finish();

  /// Throws UsageError, naming parameters, when gradients were marked in a step that was not
  /// finished.
  void checkFinalized() const;

  /// A rank that has nothing to reduce takes part in a step of the others, with zeros, by which no
  /// parameter is used; its own gradients stay as they are. Sparse gradients have as many sparse
  /// dimensions as the last one of this rank, or one. Throws as finish(). See Join.
  void shadowStep();
  /// In the next step that is reduced sums are divided by the first element of what this gives, the
  /// number of ranks that have inputs, instead of the size of the group; not those of hooks. The
  /// first bucket waits for it. With `useStaticWorldSize` it is ignored. Before markReady(), on all
  /// ranks alike.
  void setForwardPassWorkHandle(Future activeRanks, bool useStaticWorldSize = false);

  /// Forgets the step that is open, after waiting for what is under way; what was learned of the
  /// order and of a static graph is forgotten, too. With a group, goes on with that one, and tells
  /// the hook so (CommHook::useGroup()).
  void resetState(std::optional<Group> group = std::nullopt);

  BucketIndices buckets() const;
  /// As a hook would get them now, but with zeros, in memory of their own: for ranks that call a
  /// hook by themselves. UsageError where gradients are sparse, which have no row.
  std::vector<GradBucket> zeroBuckets() const;
  bool hasRebuiltBuckets() const;
  /// In which order parameters were marked in the last step.
  std::vector<std::size_t> gradReadyOrder() const;
  /// By how many ranks each parameter was used in the last step; empty unless that is looked for.
  std::vector<std::int32_t> usedMap() const;
  /// While unused parameters are looked for: whether they were the same in all steps.
  bool isGraphStatic() const;
  /// Nanoseconds from beginBackward() until each parameter was ready; of one that was not in the
  /// last step, those of an earlier one, and 0 if there is none.
  std::vector<std::int64_t> backwardStats() const;
  /// Whether the step that prepareForForward() began is timed.
  bool isSampled() const;
  ReducerStats stats() const;

  const Group& group() const noexcept;
  std::span<const Param> params() const noexcept;
  const ReducerOptions& options() const noexcept;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace unisono

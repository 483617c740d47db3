// Join: training on ranks of which some have more inputs than others.
//
//   Join join(model.reducer());
//   for (const Input& input : inputsOfThisRank) {
//     join.begin();
//     model.begin();
//     …                        // as ever
//     model.finish();
//   }
//   join.finish();             // takes part in the steps of those who have more, until nobody has
//
// A rank that has run out of inputs gives zeros to the averages of the others. At the end all ranks
// have the parameters of one that came last: those who came earlier have not made the last steps.
//
// A rank that leaves its loop by an exception does not take part any more, and the others wait for
// it until it leaves the group.
//
// Thread safety: for one thread at a time.
#pragma once

#include <vector>

#include "unisono/base/api.hpp"
#include "unisono/ddp/reducer.hpp"

namespace unisono {

struct JoinOptions {
  /// Sums are divided by the size of the group, so that every input counts the same; else by the
  /// number of ranks that have inputs, except by hooks, which know only the group.
  bool divideByInitialWorldSize = true;
  /// All ranks throw as soon as one has no more inputs.
  bool throwOnEarlyTermination = false;
};

/// The same options on all ranks. The reducer must outlive it.
class UNISONO_API Join {
 public:
  explicit Join(Reducer& reducer, JoinOptions options = {});

  /// This rank has an input, and makes one step with it; `sync` says whether gradients are reduced
  /// in it. Rebuilds buckets when it is time. Throws DistBackendError (PEER_LEFT) with the ranks
  /// that have no inputs, where that is asked for; the group stays usable.
  void begin(bool sync = true);

  /// It has no more. Returns when no rank has; then all have the same parameters, and may begin
  /// anew. Throws as begin(), and as Reducer::shadowStep().
  void finish();

 private:
  struct Round;
  Round announce(bool isActive, bool sync) const;
  std::vector<int> exhaustedIn(const Round& round) const;
  void takeFinalParameters(bool isLast) const;

  Reducer& reducer_;
  const JoinOptions options_;
};

}  // namespace unisono

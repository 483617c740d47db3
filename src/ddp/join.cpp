#include "unisono/ddp/join.hpp"

#include <string>
#include <utility>

#include "unisono/ddp/broadcast_coalesced.hpp"
#include "unisono/ddp/logger.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/str.hpp"
#include "ddp/memory.hpp"
#include "group/global_ranks.hpp"

namespace unisono {
namespace {

constexpr int kManyShadowedSteps = 1000;

DistBackendError exhausted(const Group& group, const std::vector<int>& ranks, std::string what) {
  const ProcessGroup& all = group.processGroup();
  return DistBackendError(
      {.reason = Reason::PEER_LEFT,
       .what = std::move(what),
       .hint = "give all ranks as many inputs, or do not ask for throwOnEarlyTermination: then the "
               "others go on without them",
       .group = all.defaultBackend()->options().groupName,
       .rank = all.rank(),
       .world = all.size(),
       .culprits = globalRanks(all, ranks)});
}

}  // namespace

/// What ranks tell each other before a step: a row that becomes the sum over all of them. First how
/// many have an input and how many of these reduce, then, if that ends all loops, who has none.
struct Join::Round {
  Tensor row;
  Future sum;

  std::int32_t at(std::size_t place) const { return row.dataAs<const std::int32_t>()[place]; }
  int active() const { return at(kActive); }
  bool syncs() const { return at(kSyncs) > 0; }

  static constexpr std::size_t kActive = 0;
  static constexpr std::size_t kSyncs = 1;
  static constexpr std::size_t kExhausted = 2;
};

Join::Join(Reducer& reducer, JoinOptions options) : reducer_(reducer), options_(options) {
  UNISONO_CHECK(!reducer_.options().skipAllReduceUnusedParams,
                "a rank that has no more inputs does not know which buckets the others skip: a "
                "Reducer with skipAllReduceUnusedParams cannot be joined");
  if (const std::shared_ptr<Logger> logger = reducer_.logger()) {
    logger->setUnevenInputJoin();
  }
}

Join::Round Join::announce(bool isActive, bool sync) const {
  const Group& group = reducer_.group();
  const int ranks = options_.throwOnEarlyTermination ? group.size() : 0;
  const Tensor row =
      ddp::ordinaryMemory(static_cast<std::int64_t>(Round::kExhausted) + ranks, DType::INT32);
  auto* mine = row.dataAs<std::int32_t>();
  mine[Round::kActive] = isActive ? 1 : 0;
  mine[Round::kSyncs] = isActive && sync ? 1 : 0;
  if (options_.throwOnEarlyTermination && !isActive) {
    mine[Round::kExhausted + static_cast<std::size_t>(group.rank())] = 1;
  }
  return {row, group.processGroup().allreduce(row)->getFuture()};
}

std::vector<int> Join::exhaustedIn(const Round& round) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < reducer_.group().size(); ++rank) {
    if (round.at(Round::kExhausted + static_cast<std::size_t>(rank)) != 0) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

void Join::begin(bool sync) {
  const Round round = announce(true, sync);
  if (options_.throwOnEarlyTermination) {
    round.sum.wait();
    const std::vector<int> ranks = exhaustedIn(round);
    if (!ranks.empty()) {
      std::vector<std::string> names;
      for (const int rank : ranks) {
        names.push_back(str(rank));
      }
      throw exhausted(
          reducer_.group(), ranks,
          str("Detected at least one rank that exhausted inputs. It is rank ", join(names, ", ")));
    }
  }
  if (sync) {
    // Not waited for here: it comes while this rank computes.
    reducer_.setForwardPassWorkHandle(round.sum, options_.divideByInitialWorldSize);
  }
  reducer_.rebuildBuckets();
}

void Join::finish() {
  const Group& group = reducer_.group();
  bool isLast = true;
  for (int shadowed = 0;; ++shadowed) {  // ends when nobody has inputs
    const Round round = announce(false, false);
    round.sum.wait();
    if (round.active() == 0) {
      break;
    }
    if (options_.throwOnEarlyTermination) {
      throw exhausted(group, {group.rank()}, str("Rank ", group.rank(), " exhausted all inputs."));
    }
    if (shadowed == kManyShadowedSteps) {
      UNISONO_LOG(WARN, "ddp", "rank ", group.rank(), " has had no inputs for ", shadowed,
                  " steps of the others: share inputs out more evenly");
    }
    isLast = false;
    reducer_.rebuildBuckets();
    if (round.syncs()) {
      reducer_.setForwardPassWorkHandle(round.sum, options_.divideByInitialWorldSize);
      reducer_.shadowStep();
    }
  }
  takeFinalParameters(isLast);
}

/// Of the highest rank among those that made the last step.
void Join::takeFinalParameters(bool isLast) const {
  Group group = reducer_.group();
  std::vector<std::int64_t> source = {isLast ? group.rank() : -1};
  group.allReduce(source, {.op = ReduceOp::MAX});
  std::vector<Tensor> values;
  for (const Param& param : reducer_.params()) {
    values.push_back(param.value);
  }
  broadcastCoalesced(group, values, kDefaultBroadcastBytes, static_cast<int>(source[0]));
}

}  // namespace unisono

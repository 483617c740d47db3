#include "unisono/group/group.hpp"

#include <utility>

#include "unisono/group/backend_config.hpp"
#include "unisono/store/rendezvous.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "group/subgroup.hpp"
#include "store/common.hpp"

namespace unisono {
namespace {

std::optional<Group> handleOf(std::shared_ptr<ProcessGroup> group) {
  return group ? std::optional(Group(std::move(group))) : std::nullopt;
}

/// Where `options` are refused the others learn it.
BackendConfig configFor(const InitOptions& options, const MeetingPlace& place,
                        const RendezvousResult& met, const BackendOptions& backend) {
  try {
    return BackendConfig::parse(options.backend);
  } catch (const UsageError&) {
    refuseGroup(place, met.rank, met.worldSize, backend);
    throw;
  }
}

}  // namespace

Group::Group(std::shared_ptr<ProcessGroup> group) : group_(std::move(group)) {
  UNISONO_CHECK(group_ != nullptr, "a Group needs a ProcessGroup");
}

int Group::rank() const noexcept {
  return group_->rank();
}

int Group::size() const noexcept {
  return group_->size();
}

std::string Group::name() const {
  return group_->groupName();
}

WorkPtr Group::run(OpType type, TensorList&& inputs, TensorList&& outputs,
                   const CallOptions& options, int peer) {
  CollectiveArgs args;  // member by member: of a list in braces, all bytes would be cleared first
  args.type = type;
  args.inputs = std::move(inputs);
  args.outputs = std::move(outputs);
  args.peer = peer;
  args.reduceOp = options.op;
  args.root = isRooted(args.type) ? options.root : -1;
  args.tag = options.tag;
  args.timeout = options.timeout;
  args.asyncOp = options.async;
  if (args.type == OpType::ALLTOALL_BASE) {
    args.inputSplits.assign(options.inputSplits.begin(), options.inputSplits.end());
    args.outputSplits.assign(options.outputSplits.begin(), options.outputSplits.end());
  }
  // One list, of so many; none where it is empty.
  const bool gathers = args.type == OpType::GATHER || args.type == OpType::ALLGATHER;
  const bool scatters = args.type == OpType::SCATTER || args.type == OpType::REDUCE_SCATTER;
  if (gathers && !args.outputs.empty()) {
    args.outputSplits = {static_cast<std::int64_t>(args.outputs.size())};
  } else if (scatters && !args.inputs.empty()) {
    args.inputSplits = {static_cast<std::int64_t>(args.inputs.size())};
  }
  WorkPtr work = group_->submit(std::move(args));
  if (!options.async) {
    work->wait();
  }
  return work;
}

WorkPtr Group::barrier(const CallOptions& options) {
  return run(OpType::BARRIER, {}, {}, options);
}

void Group::monitoredBarrier(const CallOptions& options, bool waitAllRanks) {
  group_->monitoredBarrier({.timeout = options.timeout}, waitAllRanks);
}

Tensor Group::allocate(std::int64_t count, DType type) {
  return group_->backend(DeviceType::CPU)->allocateTensor(count, type);
}

std::optional<Group> Group::split(std::optional<int> color) {
  return handleOf(splitByColor(*group_, color));
}

std::optional<Group> Group::newGroup(const std::vector<int>& ranks,
                                     const NewGroupOptions& options) {
  return handleOf(splitByLists(*group_, "newGroup", {ranks}, options));
}

std::optional<Group> Group::splitGroup(const std::vector<std::vector<int>>& lists,
                                       const NewGroupOptions& options) {
  return handleOf(splitByLists(*group_, "splitGroup", lists, options));
}

Group init(const InitOptions& options) {
  RendezvousResult met{.store = options.store,
                       .rank = options.rank.value_or(-1),
                       .worldSize = options.size.value_or(-1)};
  if (options.store) {
    UNISONO_CHECK(options.rank && options.size,
                  "init() with a store needs to be told rank and size too");
  } else {
    met = rendezvous(options.url, {.rank = options.rank, .worldSize = options.size});
  }
  setLogRank(met.rank);
  const BackendOptions backend{
      .timeout = options.timeout.value_or(defaultTimeout(kDefaultGroupTimeout)),
      .groupName = options.name};
  const MeetingPlace place{.store = met.store, .part = options.name};
  return Group(
      makeGroup(place, met.rank, met.worldSize, configFor(options, place, met, backend), backend));
}

}  // namespace unisono

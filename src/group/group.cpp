#include "unisono/group/group.hpp"

#include <cstdlib>
#include <utility>

#include "unisono/group/backend_config.hpp"
#include "unisono/store/hash_store.hpp"
#include "unisono/store/rendezvous.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "group/job_meeting.hpp"
#include "group/job_place.hpp"
#include "group/subgroup.hpp"
#include "store/common.hpp"
#include "store/endpoint.hpp"

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

/// Who this is and where to meet, for an init() that was told nothing of a place.
std::pair<RendezvousResult, std::string> meetByLauncher(const InitOptions& options) {
  const std::optional<JobPlace> told = findJobPlace(std::getenv);
  const bool isTold = options.rank && options.size;
  UNISONO_CHECK(told || isTold || (!options.rank && !options.size),
                "init() was told only one of rank and size, and no launcher has said the other");
  JobPlace place = told.value_or(JobPlace{.source = "nobody: a world of one"});
  place.source = isTold ? "arguments" : place.source;
  place.rank = options.rank.value_or(place.rank);
  place.size = options.size.value_or(place.size);
  UNISONO_LOG(DEBUG, "group", "this is rank ", place.rank, " of ", place.size, ", by ",
              place.source);
  const RendezvousOptions known{
      .rank = place.rank, .worldSize = place.size, .timeout = options.timeout};
  const std::string given = endpointFromEnvironment();
  if (std::getenv("MASTER_ADDR") == nullptr && place.size == 1 && place.rank == 0) {
    return {{.store = std::make_shared<HashStore>(), .rank = 0, .worldSize = 1}, place.source};
  }
  if (!given.empty() && given != options.url) {  // by UNISONO_STORE, not by MASTER_ADDR
    const StorePtr store = openEndpoint(given, options.timeout.value_or(defaultTimeout()));
    return {{.store = store, .rank = place.rank, .worldSize = place.size}, place.source};
  }
  if (std::getenv("MASTER_ADDR") == nullptr && !place.job.empty()) {
    const StorePtr store =
        meetOnHost(place.job, place.rank, place.size, options.timeout.value_or(defaultTimeout()));
    return {{.store = store, .rank = place.rank, .worldSize = place.size}, place.source};
  }
  return {rendezvous(options.url, known), place.source};
}

/// What `url` says nothing of, the launcher may: fills it in. Gives who has said the rank.
std::string completeByLauncher(const std::string& url, RendezvousOptions& known) {
  const auto query = parseRendezvousUrl(url).query;
  const bool needsRank = !known.rank && !query.contains("rank");
  const bool needsSize = !known.worldSize && !query.contains("world_size");
  const std::optional<JobPlace> told =
      needsRank || needsSize ? findJobPlace(std::getenv) : std::nullopt;
  if (!told) {
    return "arguments";
  }
  known.rank = needsRank ? std::optional(told->rank) : known.rank;
  known.worldSize = needsSize ? std::optional(told->size) : known.worldSize;
  return told->source;
}

/// The store at which the ranks meet, which of them this is, and who has said so.
std::pair<RendezvousResult, std::string> meet(const InitOptions& options) {
  if (!options.store && options.url == "env://") {
    return meetByLauncher(options);
  }
  RendezvousOptions known{
      .rank = options.rank, .worldSize = options.size, .timeout = options.timeout};
  std::string source = completeByLauncher(options.store ? "env://" : options.url, known);
  if (!options.store) {
    return {rendezvous(options.url, known), std::move(source)};
  }
  UNISONO_CHECK(known.rank && known.worldSize,
                "init() with a store needs to be told rank and size too");
  return {{.store = options.store, .rank = *known.rank, .worldSize = *known.worldSize}, source};
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

std::optional<Group> Group::split(std::optional<int> color, std::string_view name) {
  return handleOf(splitByColor(*group_, color, name));
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
  const auto [met, source] = meet(options);
  setLogRank(met.rank);
  const BackendOptions backend{
      .timeout = options.timeout.value_or(defaultTimeout(kDefaultGroupTimeout)),
      .groupName = options.name,
      .groupDesc = str("rank and size by ", source)};
  const MeetingPlace place{.store = met.store, .part = options.name};
  return Group(
      makeGroup(place, met.rank, met.worldSize, configFor(options, place, met, backend), backend));
}

}  // namespace unisono

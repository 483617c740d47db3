#include "unisono/group/group.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "unisono/backend/backend_table.hpp"
#include "unisono/group/backend_config.hpp"
#include "unisono/store/prefix_store.hpp"
#include "unisono/store/rendezvous.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/str.hpp"
#include "store/common.hpp"

namespace unisono {
namespace {

/// A group with all the backends that `config` names, each of which meets its peers.
std::shared_ptr<ProcessGroup> makeGroup(const StorePtr& store, int rank, int size,
                                        const BackendConfig& config,
                                        const BackendOptions& options) {
  auto group = std::make_shared<ProcessGroup>(store, rank, size, options.groupName);
  std::map<std::string, std::shared_ptr<Backend>> made;
  for (const auto& [device, name] : config.backends) {
    std::shared_ptr<Backend>& backend = made[name];
    if (!backend) {
      const auto own = std::make_shared<PrefixStore>(str(options.groupName, "/", name), store);
      backend = makeBackend(name, {.store = own, .rank = rank, .size = size, .options = options});
    }
    group->setBackend(device, backend);
  }
  return group;
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

WorkPtr Group::run(OpType type, const CallOptions& options, TensorList inputs, TensorList outputs) {
  CollectiveArgs args;
  args.type = type;
  args.asyncOp = options.async;
  args.reduceOp = options.op;
  args.root = isRooted(type) ? options.root : -1;
  args.timeout = options.timeout;
  args.inputs = std::move(inputs);
  args.outputs = std::move(outputs);
  WorkPtr work = group_->submit(std::move(args));
  if (!options.async) {
    work->wait();
  }
  return work;
}

WorkPtr Group::barrier(const CallOptions& options) {
  return run(OpType::BARRIER, options, {}, {});
}

std::optional<Group> Group::split(std::optional<int> color) {
  // What all ranks said: whether they take part, and their color.
  const std::vector<std::int64_t> mine = {color.has_value() ? 1 : 0, color.value_or(0)};
  std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(size()));
  allGather(mine, all);
  if (!color) {
    return std::nullopt;
  }
  const Backend& parent = *group_->defaultBackend();
  BackendOptions options = parent.options();
  // The number of the operation above is the same on all ranks, and no other split has it.
  options.groupName = str(name(), "/split", group_->sequenceNumber(), "/", *color);
  options.globalRanks.clear();
  int newRank = 0;
  for (int rank = 0; rank < size(); ++rank) {
    const auto at = 2 * static_cast<std::size_t>(rank);
    if (all[at] == 1 && all[at + 1] == *color) {
      newRank += rank < this->rank() ? 1 : 0;
      const std::vector<int>& known = parent.options().globalRanks;
      options.globalRanks.push_back(known.empty() ? rank : known[static_cast<std::size_t>(rank)]);
    }
  }
  BackendConfig config;
  for (const DeviceType device : group_->deviceTypes()) {
    config.backends.emplace_back(device, group_->backend(device)->name());
  }
  return Group(makeGroup(group_->store(), newRank, static_cast<int>(options.globalRanks.size()),
                         config, options));
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
  return Group(makeGroup(met.store, met.rank, met.worldSize, BackendConfig::parse(options.backend),
                         backend));
}

}  // namespace unisono

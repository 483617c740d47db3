#include "group/subgroup.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "unisono/backend/backend_table.hpp"
#include "unisono/backend/process_group_wrapper.hpp"
#include "unisono/base/debug_level.hpp"
#include "unisono/store/prefix_store.hpp"

#include "base/check.hpp"
#include "base/fingerprint.hpp"
#include "base/log.hpp"
#include "base/str.hpp"
#include "group/global_ranks.hpp"
#include "group/group_state.hpp"
#include "transport/meeting.hpp"

namespace unisono {
namespace {

constexpr std::string_view kNativeBackend = "unisono";

std::vector<std::string> texts(const std::vector<int>& ranks) {
  std::vector<std::string> all;
  for (const int rank : ranks) {
    all.push_back(str(rank));
  }
  return all;
}

/// "newGroup([0, 2])", with no more than `most` ranks per list and as many lists.
std::string describeCall(std::string_view call, const std::vector<std::vector<int>>& lists,
                         const NewGroupOptions& options, std::size_t most) {
  std::vector<std::string> parts;
  for (const std::vector<int>& ranks : lists) {
    parts.push_back(str("[", join(texts(ranks), ", ", most), "]"));
  }
  return str(call, "(", join(parts, ", ", most), options.backend.empty() ? "" : ", ",
             options.backend, ")");
}

/// A call as a number that a tensor can carry.
std::int64_t callNumber(std::string_view call) {
  return static_cast<std::int64_t>(fingerprint(call));
}

/// What a rank says before groups are made.
struct Word {
  std::int64_t call;       // what all must agree on: its fingerprint
  std::int64_t takesPart;  // and what is its own
  std::int64_t color;
};

/// The ranks that call something else than most do; than the lowest, if nothing is called by most.
std::vector<int> odd(const std::vector<Word>& words) {
  std::map<std::int64_t, int> votes;
  for (const Word& word : words) {
    ++votes[word.call];
  }
  const std::int64_t usual =
      std::max_element(words.begin(), words.end(), [&](const Word& a, const Word& b) {
        return votes[a.call] < votes[b.call];
      })->call;
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    if (words[rank].call != usual) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return ranks;
}

/// The words of all ranks of `group`, once all have said theirs. Throws on all of them when they
/// do not agree on the call; `text` says what this rank called.
std::vector<Word> hearAll(ProcessGroup& group, const Word& mine, const std::string& text) {
  std::vector<std::int64_t> give = {mine.call, mine.takesPart, mine.color};
  std::vector<std::int64_t> all(give.size() * static_cast<std::size_t>(group.size()));
  group.allGatherSingle(Tensor(all), Tensor(give), {.asyncOp = false})->wait();
  std::vector<Word> words;
  for (std::size_t at = 0; at < all.size(); at += give.size()) {
    words.push_back({all[at], all[at + 1], all[at + 2]});
  }
  const std::vector<int> culprits = globalRanks(group, odd(words));
  if (!culprits.empty()) {
    throw DistBackendError(
        {.reason = Reason::MISMATCH,
         .what = str("no group was made: rank ", join(texts(culprits), ", "),
                     " made another call than the other ranks; this rank called ", text),
         .hint = "make the same call with the same lists on all ranks",
         .group = group.groupName(),
         .rank = group.rank(),
         .world = group.size(),
         .culprits = culprits});
  }
  return words;
}

/// Throws UsageError unless all ranks are of `group`, and none is named twice.
void checkLists(const ProcessGroup& group, std::string_view call,
                const std::vector<std::vector<int>>& lists) {
  const std::shared_ptr<GroupState> state = stateOf(group);
  std::vector<bool> named(static_cast<std::size_t>(group.size()));
  const auto isEmpty = [](const std::vector<int>& ranks) { return ranks.empty(); };
  if (lists.empty() || std::any_of(lists.begin(), lists.end(), isEmpty)) {
    state->refuse(str(call, " refused: Split ranks cannot be empty"),
                  "name at least one rank for every group");
  }
  for (const std::vector<int>& ranks : lists) {
    for (const int rank : ranks) {
      if (rank < 0 || rank >= group.size()) {
        state->refuse(str(call, " refused: rank ", rank, " is none of a group of ", group.size()),
                      str("name ranks from 0 to ", group.size() - 1));
      }
      if (named[static_cast<std::size_t>(rank)]) {
        state->refuse(str(call, " refused: Split ranks should not have duplicates, rank ", rank,
                          " is named twice"),
                      "name every rank once");
      }
      named[static_cast<std::size_t>(rank)] = true;
    }
  }
}

/// The number of what is made next out of `parent`: the same on all its ranks, as they all make the
/// same calls. (Its operations may be numbered differently, where some are between few ranks.)
std::uint64_t countMade(const ProcessGroup& parent) {
  // Relaxed: just a number.
  return stateOf(parent)->made.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// What `options` say, or else what `parent` has.
BackendConfig configFor(const ProcessGroup& parent, const NewGroupOptions& options) {
  if (!options.backend.empty()) {
    return BackendConfig::parse(options.backend);
  }
  BackendConfig config;
  for (const DeviceType device : parent.deviceTypes()) {
    config.backends.emplace_back(device, parent.backend(device)->name());
  }
  return config;
}

/// Where a new group meets below its parent's store, which nobody else does, and what it is called
/// below its parent's name.
struct Place {
  std::string part;
  std::string name;
};

/// The group of `members`, ranks of `parent` in their new order, of which this is one.
std::shared_ptr<ProcessGroup> makeSubgroup(const ProcessGroup& parent, const Place& place,
                                           const std::vector<int>& members,
                                           const BackendConfig& config,
                                           const NewGroupOptions& options) {
  const auto self = std::find(members.begin(), members.end(), parent.rank());
  auto group =
      makeGroup({.store = parent.store(), .part = place.part},
                static_cast<int>(self - members.begin()), static_cast<int>(members.size()), config,
                {.timeout = options.timeout.value_or(parent.defaultBackend()->timeout()),
                 .groupName = str(parent.groupName(), "/", place.name),
                 .groupDesc = options.desc,
                 .globalRanks = globalRanks(parent, members)});
  const std::shared_ptr<GroupState> state = stateOf(*group);
  state->isWorld = false;
  state->family = stateOf(parent)->family;
  state->family->add(group);
  return group;
}

/// At debug level DETAIL ranks compare their calls before they begin.
std::shared_ptr<Backend> checkedIfAsked(std::shared_ptr<Backend> backend, const std::string& name,
                                        const std::shared_ptr<Store>& store) {
  if (debugLevel() != DebugLevel::DETAIL) {
    return backend;
  }
  return std::make_shared<ProcessGroupWrapper>(
      std::move(backend), std::make_shared<PrefixStore>(str("calls/", name), store));
}

std::shared_ptr<ProcessGroup> makeBackends(const MeetingPlace& place, int rank, int size,
                                           const BackendConfig& config,
                                           const BackendOptions& options) {
  const auto own = std::make_shared<PrefixStore>(place.part, place.store);
  auto group = std::make_shared<ProcessGroup>(own, rank, size, options.groupName);
  group->setGroupDesc(options.groupDesc);
  std::map<std::string, std::shared_ptr<Backend>> made;
  for (const auto& [device, name] : config.backends) {
    std::shared_ptr<Backend>& backend = made[name];
    if (!backend) {
      backend = makeBackend(name, {.store = std::make_shared<PrefixStore>(name, own),
                                   .rank = rank,
                                   .size = size,
                                   .options = options});
      backend = checkedIfAsked(std::move(backend), name, own);
    }
    group->setBackend(device, backend);
  }
  return group;
}

}  // namespace

void refuseGroup(const MeetingPlace& place, int rank, int size,
                 const BackendOptions& options) noexcept {
  if (!place.store) {
    return;
  }
  try {
    // Those who meet are the native backends.
    const auto own = std::make_shared<PrefixStore>(place.part, place.store);
    stayAway({.store = std::make_shared<PrefixStore>(std::string(kNativeBackend), own),
              .rank = rank,
              .size = size,
              .group = options.groupName,
              .settings = "",
              .timeout = options.timeout,
              .globalRanks = options.globalRanks});
  } catch (const std::exception& error) {
    UNISONO_LOG(INFO, "group", "the ranks of group '", options.groupName,
                "' cannot be told that there is none: ", error.what());
  }
}

std::shared_ptr<ProcessGroup> makeGroup(const MeetingPlace& place, int rank, int size,
                                        const BackendConfig& config,
                                        const BackendOptions& options) {
  try {
    return makeBackends(place, rank, size, config, options);
  } catch (const UsageError&) {  // whatever else there is, ranks that meet tell each other
    refuseGroup(place, rank, size, options);
    throw;
  }
}

std::shared_ptr<ProcessGroup> splitByColor(ProcessGroup& parent, std::optional<int> color,
                                           std::string_view name) {
  const std::string call = str("split(", name, ")");
  const std::vector<Word> words = hearAll(
      parent, {.call = callNumber(call), .takesPart = color ? 1 : 0, .color = color.value_or(0)},
      call);
  const std::uint64_t number = countMade(parent);
  if (!color) {
    return nullptr;
  }
  std::vector<int> members;
  for (int rank = 0; rank < parent.size(); ++rank) {
    const Word& word = words[static_cast<std::size_t>(rank)];
    if (word.takesPart == 1 && word.color == *color) {
      members.push_back(rank);
    }
  }
  const std::string part = str(number, "/", *color);
  const std::string called = name.empty() ? part : str(name, "/", *color);
  return makeSubgroup(parent, {.part = part, .name = called}, members, configFor(parent, {}), {});
}

std::shared_ptr<ProcessGroup> splitByLists(ProcessGroup& parent, std::string_view call,
                                           std::vector<std::vector<int>> lists,
                                           const NewGroupOptions& options) {
  for (std::vector<int>& ranks : lists) {
    if (options.sortRanks) {
      std::sort(ranks.begin(), ranks.end());
    }
  }
  hearAll(parent,
          {.call = callNumber(describeCall(call, lists, options, SIZE_MAX)),
           .takesPart = 0,
           .color = 0},
          describeCall(call, lists, options, 16));
  checkLists(parent, call, lists);
  const BackendConfig config = configFor(parent, options);
  const std::uint64_t number = countMade(parent);
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (std::find(lists[i].begin(), lists[i].end(), parent.rank()) != lists[i].end()) {
      const std::string part = lists.size() == 1 ? str(number) : str(number, "/", i);
      return makeSubgroup(parent, {.part = part, .name = part}, lists[i], config, options);
    }
  }
  return nullptr;
}

}  // namespace unisono

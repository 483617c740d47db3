// Making groups: out of nothing but a store, or out of the ranks of another group.
//
// Who makes groups out of another first hears from all its ranks which call they are in. So ranks
// that disagree all learn it at once, and none waits for one that was refused.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/group/backend_config.hpp"
#include "unisono/group/group.hpp"

namespace unisono {

/// Where the members of a group meet: under `part` of a store.
struct MeetingPlace {
  std::shared_ptr<Store> store;
  std::string part;
};

/// A group with all the backends that `config` names, each of which meets its peers. Where this
/// rank's arguments are refused (UsageError) the others learn it.
std::shared_ptr<ProcessGroup> makeGroup(const MeetingPlace& place, int rank, int size,
                                        const BackendConfig& config, const BackendOptions& options);

/// Tells the others, with the exception that is being handled, that this rank does not come.
void refuseGroup(const MeetingPlace& place, int rank, int size,
                 const BackendOptions& options) noexcept;

/// See Group::split(). Null for who gives no color.
std::shared_ptr<ProcessGroup> splitByColor(ProcessGroup& parent, std::optional<int> color,
                                           std::string_view name);

/// See Group::newGroup() and Group::splitGroup(); `call` is which of them. Null for who is in no
/// list.
std::shared_ptr<ProcessGroup> splitByLists(ProcessGroup& parent, std::string_view call,
                                           std::vector<std::vector<int>> lists,
                                           const NewGroupOptions& options);

}  // namespace unisono

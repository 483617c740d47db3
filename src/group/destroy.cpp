// The end of groups, in good order.
#include <algorithm>
#include <exception>
#include <optional>
#include <vector>

#include "unisono/group/group.hpp"
#include "unisono/group/group_registry.hpp"

#include "base/clock.hpp"
#include "group/group_state.hpp"

namespace unisono {
namespace {

Milliseconds timeoutOf(const ProcessGroup& group) {
  return group.deviceTypes().empty() ? kDefaultGroupTimeout : group.defaultBackend()->timeout();
}

/// Shuts `group` down, within its timeout and no later than `deadline`; returns what that throws.
std::exception_ptr close(ProcessGroup& group, std::optional<Deadline> deadline) noexcept {
  try {
    unregisterGroup(group);
    if (deadline) {
      group.setTimeout(std::min(timeoutOf(group), deadline->remaining()));
    }
    group.shutdown();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace

void destroyProcessGroup(const Group& group) {
  ProcessGroup& self = group.processGroup();
  const std::shared_ptr<GroupState> state = stateOf(self);
  state->madeIn.check("group");
  if (!state->markDestroyed()) {
    state->refuseDestroyed("destroyProcessGroup refused: this group has been destroyed already");
  }
  std::optional<Deadline> deadline;  // of several that end one after the other
  std::vector<std::shared_ptr<ProcessGroup>> others;
  if (state->isWorld) {
    others = state->family->living();
    std::reverse(others.begin(), others.end());
  }
  if (!others.empty()) {
    deadline = Deadline::after(timeoutOf(self));
  }
  std::exception_ptr first;
  for (const std::shared_ptr<ProcessGroup>& other : others) {
    if (stateOf(*other)->markDestroyed()) {
      const std::exception_ptr error = close(*other, deadline);
      first = first ? first : error;
    }
  }
  const std::exception_ptr error = close(self, deadline);
  first = first ? first : error;
  if (first) {
    std::rethrow_exception(first);
  }
}

}  // namespace unisono

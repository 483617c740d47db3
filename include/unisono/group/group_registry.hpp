// Groups by name: how code that is given only a name finds its group.
//
// The registry does not keep groups: one that is gone has no name any more.
//
// Thread safety: every function may be called from any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/api.hpp"
#include "unisono/group/process_group.hpp"

namespace unisono {

/// Throws UsageError ("The specified group name has already been created") when a living group
/// has that name.
UNISONO_API void registerGroup(const std::string& name, const std::shared_ptr<ProcessGroup>& group);

/// Throws UsageError when no living group has that name.
UNISONO_API std::shared_ptr<ProcessGroup> resolveGroup(std::string_view name);

/// Whether there was one.
UNISONO_API bool unregisterGroup(std::string_view name);
/// All names of `group`. Whether there were any.
UNISONO_API bool unregisterGroup(const ProcessGroup& group);

/// Of all living groups, sorted.
UNISONO_API std::vector<std::string> groupNames();

}  // namespace unisono

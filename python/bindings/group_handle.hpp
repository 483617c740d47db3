// GroupHandle: what a group is in Python; unisono/_group.py makes it comfortable.
#pragma once

#include <optional>
#include <utility>

#include "unisono/base/error.hpp"
#include "unisono/group/group.hpp"

#include "bindings/gil.hpp"

namespace unisono::python {

/// A group, until it is left. Letting go of one ends its threads, which may need the interpreter.
class GroupHandle {
 public:
  explicit GroupHandle(Group group) : group_(std::move(group)) {}
  ~GroupHandle() { leave(); }
  GroupHandle(const GroupHandle&) = delete;
  GroupHandle& operator=(const GroupHandle&) = delete;

  /// A copy, so that a call keeps the group that another thread leaves meanwhile.
  Group get() const {
    if (!group_) {
      throw UsageError({.reason = Reason::SHUTDOWN,
                        .what = "this group has been closed",
                        .hint = "make a new one by unisono.init()"});
    }
    return *group_;
  }

  void leave() noexcept {
    if (std::optional<Group> last = std::exchange(group_, std::nullopt)) {
      withoutLock([&] { last.reset(); });
    }
  }

 private:
  std::optional<Group> group_;
};

}  // namespace unisono::python

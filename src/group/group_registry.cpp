#include "unisono/group/group_registry.hpp"

#include <map>

#include "base/check.hpp"
#include "base/mutex.hpp"

namespace unisono {
namespace {

class GroupRegistry {
 public:
  /// Never destroyed: groups may be looked for while the process ends.
  static GroupRegistry& instance() {
    static GroupRegistry* const registry = new GroupRegistry;
    return *registry;
  }

  bool add(const std::string& name, const std::shared_ptr<ProcessGroup>& group)
      UNISONO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    std::weak_ptr<ProcessGroup>& entry = groups_[name];
    if (!entry.expired()) {
      return false;
    }
    entry = group;
    return true;
  }

  std::shared_ptr<ProcessGroup> find(std::string_view name) const UNISONO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = groups_.find(name);
    return found == groups_.end() ? nullptr : found->second.lock();
  }

  bool remove(std::string_view name) UNISONO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = groups_.find(name);
    if (found == groups_.end()) {
      return false;
    }
    const bool alive = !found->second.expired();
    groups_.erase(found);
    return alive;
  }

  bool remove(const ProcessGroup& group) UNISONO_EXCLUDES(mutex_) {
    // Let go of without the lock: this may be the last to hold a group.
    std::vector<std::shared_ptr<ProcessGroup>> looked;
    const MutexLock lock(mutex_);
    return std::erase_if(groups_, [&](const auto& entry) {
             looked.push_back(entry.second.lock());
             return looked.back().get() == &group;
           }) > 0;
  }

  std::vector<std::string> names() const UNISONO_EXCLUDES(mutex_) {
    std::vector<std::string> names;
    const MutexLock lock(mutex_);
    for (const auto& [name, group] : groups_) {
      if (!group.expired()) {
        names.push_back(name);
      }
    }
    return names;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::weak_ptr<ProcessGroup>, std::less<>> groups_
      UNISONO_GUARDED_BY(mutex_);
};

}  // namespace

void registerGroup(const std::string& name, const std::shared_ptr<ProcessGroup>& group) {
  UNISONO_CHECK(group != nullptr, "the group '", name, "' is none");
  UNISONO_CHECK(!name.empty(), "a group cannot be registered without a name");
  UNISONO_CHECK(GroupRegistry::instance().add(name, group),
                "The specified group name has already been created: '", name, "'");
}

std::shared_ptr<ProcessGroup> resolveGroup(std::string_view name) {
  std::shared_ptr<ProcessGroup> group = GroupRegistry::instance().find(name);
  if (!group) {
    const std::vector<std::string> names = groupNames();
    throw UsageError(
        {.reason = Reason::USAGE,
         .what = str("Could not resolve the process group registered under the name '", name,
                     "'; registered are ", names.empty() ? "none" : join(names, ", "))});
  }
  return group;
}

bool unregisterGroup(std::string_view name) {
  return GroupRegistry::instance().remove(name);
}

bool unregisterGroup(const ProcessGroup& group) {
  return GroupRegistry::instance().remove(group);
}

std::vector<std::string> groupNames() {
  return GroupRegistry::instance().names();
}

}  // namespace unisono

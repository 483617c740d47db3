// Family: the groups that were made out of one world, directly or not.
#pragma once

#include <memory>
#include <vector>

#include "base/mutex.hpp"

namespace unisono {

class ProcessGroup;

/// Keeps none of them alive. Thread safety: everything from any thread.
class Family {
 public:
  void add(const std::shared_ptr<ProcessGroup>& group) UNISONO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    std::erase_if(groups_, [](const auto& each) { return each.expired(); });
    groups_.push_back(group);
  }

  /// Those that live, in the order in which they were made.
  std::vector<std::shared_ptr<ProcessGroup>> living() const UNISONO_EXCLUDES(mutex_) {
    std::vector<std::shared_ptr<ProcessGroup>> groups;
    const MutexLock lock(mutex_);
    for (const std::weak_ptr<ProcessGroup>& each : groups_) {
      if (std::shared_ptr<ProcessGroup> group = each.lock()) {
        groups.push_back(std::move(group));
      }
    }
    return groups;
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::weak_ptr<ProcessGroup>> groups_ UNISONO_GUARDED_BY(mutex_);
};

}  // namespace unisono

#include "unisono/group/work_registry.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/mutex.hpp"

namespace unisono {
namespace {

using Owner = std::weak_ptr<const void>;
using OwnerPtr = std::shared_ptr<const void>;

/// Up to here the table is looked through at every change; beyond, when it has doubled.
constexpr std::size_t kFew = 64;

/// One work of one memory, registered by one thread.
struct PendingWork {
  WorkPtr work;              // null once it has ended: a work keeps its tensors
  std::weak_ptr<Work> id;    // which work it is, also then
  std::exception_ptr error;  // what it has failed with
  std::thread::id thread;
};
using PendingPtr = std::shared_ptr<PendingWork>;

template <typename Pointer>
bool isSameOwner(const Pointer& a, const Pointer& b) noexcept {
  return !a.owner_before(b) && !b.owner_before(a);
}

class WorkRegistry {
 public:
  /// Never destroyed: tensors may be waited for while the process ends.
  static WorkRegistry& instance() {
    static WorkRegistry* const registry = new WorkRegistry;
    return *registry;
  }

  void add(const OwnerPtr& owner, const WorkPtr& work) UNISONO_EXCLUDES(mutex_) {
    const auto pending =
        std::make_shared<PendingWork>(PendingWork{work, work, nullptr, std::this_thread::get_id()});
    Dropped dropped;
    const MutexLock lock(mutex_);
    if (entries_.size() >= nextSweep_) {
      sweep(dropped);
      nextSweep_ = entries_.size() < kFew ? 0 : 2 * entries_.size();
    }
    std::vector<PendingPtr>& known = entries_[owner];
    if (std::none_of(known.begin(), known.end(),
                     [&](const PendingPtr& each) { return isSameOwner(each->id, pending->id); })) {
      known.push_back(pending);
    }
  }

  /// The first of a memory, as it is now; `entry` is null when there is none.
  struct Next {
    PendingPtr entry;
    WorkPtr work;
    std::exception_ptr error;
  };
  Next first(const OwnerPtr& owner) const UNISONO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(Owner(owner));
    if (found == entries_.end()) {
      return {};
    }
    const PendingPtr& entry = found->second.front();
    return {entry, entry->work, entry->error};
  }

  /// Another thread may have done so already.
  void forget(const OwnerPtr& owner, const PendingPtr& entry) UNISONO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(Owner(owner));
    if (found != entries_.end() && std::erase(found->second, entry) > 0 && found->second.empty()) {
      entries_.erase(found);
    }
  }

  std::size_t size() UNISONO_EXCLUDES(mutex_) {
    for (int pass = 0; pass < 2;
         ++pass) {  // memory that the first lets go of is seen by the second
      Dropped dropped;
      const MutexLock lock(mutex_);
      sweep(dropped);
    }
    const MutexLock lock(mutex_);
    std::size_t count = 0;
    for (const auto& [owner, known] : entries_) {
      count += static_cast<std::size_t>(std::count_if(
          known.begin(), known.end(),
          [](const PendingPtr& each) { return each->thread == std::this_thread::get_id(); }));
    }
    return count;
  }

 private:
  /// What the table no longer keeps. Goes without the lock: with a work may go tensors, and with
  /// them code of their owners, which may come here again.
  struct Dropped {
    std::vector<WorkPtr> works;
    std::vector<std::vector<PendingPtr>> entries;
  };

  /// Lets go of works that have ended, and of all that belongs to memory that is gone.
  void sweep(Dropped& dropped) UNISONO_REQUIRES(mutex_) {
    std::erase_if(entries_, [&](auto& entry) {
      auto& [owner, known] = entry;
      if (owner.expired()) {
        dropped.entries.push_back(std::move(known));
        return true;
      }
      for (const PendingPtr& each : known) {
        if (each->work && each->work->isCompleted()) {
          each->error = each->work->exception();
          dropped.works.push_back(std::move(each->work));
        }
      }
      return false;
    });
  }

  mutable Mutex mutex_;
  // Held weakly, the owner's place is nobody else's for as long as it is a key here.
  std::map<Owner, std::vector<PendingPtr>, std::owner_less<Owner>> entries_
      UNISONO_GUARDED_BY(mutex_);
  std::size_t nextSweep_ UNISONO_GUARDED_BY(mutex_) = 0;
};

/// What `next` has failed with, once it has ended; null for nothing. Throws when the wait did not
/// last until then.
std::exception_ptr outcomeOf(const WorkRegistry::Next& next) {
  if (!next.work) {
    return next.error;
  }
  try {
    next.work->wait();
  } catch (...) {
    if (!next.work->isCompleted()) {
      throw;  // the wait was interrupted: it is left for another time
    }
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace

void registerWork(const Tensor& tensor, const WorkPtr& work) {
  UNISONO_CHECK(work != nullptr, "there is no work to register for ", tensor.describe());
  if (tensor.keepAlive().use_count() == 0) {
    throw UsageError({.reason = Reason::USAGE,
                      .what = str("a work cannot be found by ", tensor.describe(),
                                  ", whose memory has no owner that the tensor knows"),
                      .hint = "wait for the work itself, or make the tensor with a keepAlive"});
  }
  WorkRegistry::instance().add(tensor.keepAlive(), work);
}

Tensor waitTensor(const Tensor& tensor) {
  const OwnerPtr& owner = tensor.keepAlive();
  if (owner.use_count() == 0) {
    return tensor;
  }
  WorkRegistry& registry = WorkRegistry::instance();
  std::exception_ptr failed;
  for (auto next = registry.first(owner); next.entry; next = registry.first(owner)) {
    const std::exception_ptr outcome = outcomeOf(next);
    failed = failed ? failed : outcome;
    registry.forget(owner, next.entry);
  }
  if (failed) {
    std::rethrow_exception(failed);
  }
  return tensor;
}

std::size_t workRegistrySize() {
  return WorkRegistry::instance().size();
}

}  // namespace unisono

// HookList: the hooks of one kind. Callers take the list as it is and run it without a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "base/mutex.hpp"

namespace unisono {

template <typename Hook>
class HookList {
 public:
  using Hooks = std::vector<std::pair<std::uint64_t, Hook>>;

  /// `bit` of `present` is set while there are hooks.
  HookList(std::atomic<std::uint32_t>& present, std::uint32_t bit) : present_(present), bit_(bit) {}

  std::uint64_t add(Hook hook) UNISONO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    auto changed = std::make_shared<Hooks>(*hooks_);
    changed->emplace_back(++lastId_, std::move(hook));
    hooks_ = std::move(changed);
    // Relaxed: the list itself is read under the lock.
    present_.fetch_or(bit_, std::memory_order_relaxed);
    return lastId_;
  }

  void remove(std::uint64_t id) UNISONO_EXCLUDES(mutex_) {
    std::shared_ptr<const Hooks> before;  // let go of without the lock: it may hold user's objects
    const MutexLock lock(mutex_);
    auto changed = std::make_shared<Hooks>(*hooks_);
    std::erase_if(*changed, [id](const auto& entry) { return entry.first == id; });
    if (changed->empty()) {
      present_.fetch_and(~bit_, std::memory_order_relaxed);
    }
    before = std::exchange(hooks_, std::move(changed));
  }

  std::shared_ptr<const Hooks> now() const UNISONO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return hooks_;
  }

 private:
  std::atomic<std::uint32_t>& present_;
  const std::uint32_t bit_;
  mutable Mutex mutex_;
  std::uint64_t lastId_ UNISONO_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const Hooks> hooks_ UNISONO_GUARDED_BY(mutex_) = std::make_shared<Hooks>();
};

/// Calls every hook; what one throws is logged and dropped.
template <typename Hooks, typename... Args>
void runHooks(const Hooks& hooks, std::string_view kind, const Args&... args) noexcept {
  for (const auto& [id, hook] : hooks) {
    try {
      hook(args...);
    } catch (const std::exception& error) {
      UNISONO_LOG(ERROR, "group", kind, " failed and was dropped: ", error.what());
    } catch (...) {
      UNISONO_LOG(ERROR, "group", kind, " failed and was dropped: it threw no std::exception");
    }
  }
}

}  // namespace unisono

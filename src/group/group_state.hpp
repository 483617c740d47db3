// GroupState: what a ProcessGroup is made of, shared with its hook handles and coalescing scopes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "unisono/backend/backend.hpp"
#include "unisono/group/hooks.hpp"

#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "group/family.hpp"
#include "group/hook_list.hpp"

namespace unisono {

/// Ends with the batch that it stands for.
class BatchWork;

struct Batch {
  DeviceType device = DeviceType::CPU;
  std::vector<CollectiveArgs> calls = {};
  std::shared_ptr<BatchWork> work = {};
};

/// Members are public: only the files of this room see the type.
struct GroupState {
  static constexpr std::uint32_t kPre = 1;
  static constexpr std::uint32_t kPost = 2;
  static constexpr std::uint32_t kCompletion = 4;
  static constexpr std::uint32_t kAbort = 8;
  static constexpr std::uint32_t kCoalescing = 16;
  static constexpr std::uint32_t kDestroyed = 32;
  static constexpr std::uint32_t kHooks = kPre | kPost | kCompletion | kAbort;
  /// What an operation has to look at.
  static constexpr std::uint32_t kObserved = kPre | kPost | kCompletion | kCoalescing | kDestroyed;

  GroupState(std::shared_ptr<Store> storeOfGroup, int rankInGroup, int sizeOfGroup)
      : store(std::move(storeOfGroup)), rank(rankInGroup), size(sizeOfGroup) {}

  /// The backend for the tensors of a call. Throws UsageError when there is none.
  Backend& pick(const CollectiveArgs& args) const;
  /// Where there is none for `type`, the device of the call.
  Backend& pickAnother(const CollectiveArgs& args, DeviceType type) const;
  std::shared_ptr<Backend> backendFor(DeviceType type) const UNISONO_EXCLUDES(mutex);
  std::vector<std::shared_ptr<Backend>> allBackends() const UNISONO_EXCLUDES(mutex);

  /// The number of the next operation. Relaxed: it orders nothing.
  std::uint64_t takeNumber() noexcept { return seq.fetch_add(1, std::memory_order_relaxed) + 1; }
  std::uint64_t nextNumber() const noexcept { return seq.load(std::memory_order_relaxed) + 1; }

  /// The way of an operation that somebody observes, or that is collected.
  WorkPtr submitObserved(Backend& backend, CollectiveArgs&& args, std::uint32_t present);
  /// Post and completion hooks of an operation that was started.
  void tellStarted(OpType type, std::uint64_t number, const WorkPtr& work, std::uint32_t present);
  /// Completion hooks of one that could not be started.
  void tellFailed(OpType type, std::uint64_t number, std::exception_ptr error);
  void runPreHooks(const CollectiveArgs& args, std::uint64_t number);

  /// Adds the call to the open batch, if that is for its device; null otherwise.
  WorkPtr collect(CollectiveArgs& args, DeviceType device) UNISONO_EXCLUDES(mutex);
  void openBatch(DeviceType device) UNISONO_EXCLUDES(mutex);
  Batch takeBatch() UNISONO_EXCLUDES(mutex);
  WorkPtr endBatch() UNISONO_EXCLUDES(mutex);
  void dropBatch() noexcept UNISONO_EXCLUDES(mutex);

  /// From here on operations are refused. False if they were already.
  bool markDestroyed() noexcept {
    // Relaxed: what is started at the same moment is ended by the backends.
    return (present.fetch_or(kDestroyed, std::memory_order_relaxed) & kDestroyed) == 0;
  }
  void checkNotDestroyed() const {
    if ((present.load(std::memory_order_relaxed) & kDestroyed) != 0) {
      refuseDestroyed("this group has been destroyed");
    }
  }
  [[noreturn]] void refuseDestroyed(std::string what) const UNISONO_EXCLUDES(mutex);

  [[noreturn]] void refuse(std::string what, std::string hint = {}) const UNISONO_EXCLUDES(mutex);
  [[noreturn]] void refuseAs(Reason reason, std::string what, std::string hint) const
      UNISONO_EXCLUDES(mutex);

  const std::shared_ptr<Store> store;
  const int rank;
  const int size;
  const ForkGuard madeIn;

  // Set, if at all, before anybody else sees the group.
  std::shared_ptr<Family> family = std::make_shared<Family>();
  bool isWorld = true;  // false: made out of another group

  // Set once per device, before operations use it. Acquire/release: who sees the pointer sees the
  // backend. The owners are in `backends`, and stay until the group goes.
  std::array<std::atomic<Backend*>, kDeviceTypeCount> byDevice = {};
  // Which hooks exist, whether a batch is open, whether the group has been destroyed.
  std::atomic<std::uint32_t> present{0};
  std::atomic<bool> aborted{false};
  std::atomic<std::uint64_t> made{0};  // how often groups were made out of this one
  HookList<PreHook> preHooks{present, kPre};
  HookList<PostHook> postHooks{present, kPost};
  HookList<CompletionHook> completionHooks{present, kCompletion};
  HookList<AbortHook> abortHooks{present, kAbort};

  mutable Mutex mutex;
  std::array<std::shared_ptr<Backend>, kDeviceTypeCount> backends UNISONO_GUARDED_BY(mutex);
  std::string name UNISONO_GUARDED_BY(mutex);
  std::string desc UNISONO_GUARDED_BY(mutex);
  std::optional<Batch> batch UNISONO_GUARDED_BY(mutex);

  // On a line of its own: the one word that every operation writes.
  alignas(64) std::atomic<std::uint64_t> seq{0};
};

/// What `group` is made of, for the other files of this room.
std::shared_ptr<GroupState> stateOf(const ProcessGroup& group);

}  // namespace unisono

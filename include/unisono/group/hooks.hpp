// Hooks: how observers see the operations of a group.
//
//   HookHandle watching = group.addPreHook([](const CollectiveCall& call) { count(call.args.type);
//   });
//
// Hooks run without any lock of unisono, in the order in which they were added. What a pre-hook
// throws refuses the operation, and the caller gets it; what others throw is logged and dropped.
// A group without hooks pays one load for them.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "unisono/base/api.hpp"
#include "unisono/work/collective_args.hpp"
#include "unisono/work/work.hpp"

namespace unisono {

/// An operation that is about to start.
struct CollectiveCall {
  const CollectiveArgs& args;
  std::uint64_t seq;  // the number it will have
};

/// An operation that was started.
struct StartedCall {
  OpType type;
  std::uint64_t seq;
  const WorkPtr& work;
};

using PreHook = std::function<void(const CollectiveCall&)>;
using PostHook = std::function<void(const StartedCall&)>;
/// Called once per operation when it has ended, by the thread that ended it.
using CompletionHook = std::function<void(const WorkInfo&)>;
/// Called once per group, by the thread that aborts it, before its backends are.
using AbortHook = std::function<void(std::exception_ptr reason)>;

/// Removes a hook when it goes away. A call of the hook that is under way on another thread is not
/// waited for.
class UNISONO_API HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  ~HookHandle() { remove(); }
  HookHandle(HookHandle&& other) noexcept : remove_(std::exchange(other.remove_, nullptr)) {}
  HookHandle& operator=(HookHandle&& other) noexcept {
    if (this != &other) {
      remove();
      remove_ = std::exchange(other.remove_, nullptr);
    }
    return *this;
  }

  /// Removes the hook now.
  void remove() noexcept;
  /// Leaves the hook in place for as long as the group lives.
  void release() noexcept { remove_ = nullptr; }

 private:
  std::function<void()> remove_;
};

}  // namespace unisono

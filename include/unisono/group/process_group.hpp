// ProcessGroup: ranks that work together, and the operations between them.
//
//   auto group = std::make_shared<ProcessGroup>(store, rank, size);
//   group->setBackend(DeviceType::CPU, makeBackend("unisono", {…}));
//   group->allreduce(gradients)->wait();
//
// A group routes: the device of the tensors decides which backend runs an operation. It numbers
// operations, from 1, and lets hooks see them. Every rank calls the same operations in the same
// order; a call that is refused takes no number, so that the ranks stay in step.
//
// Thread safety: every method may be called from any thread. Calling operations of one group from
// several threads at once breaks nothing here, but their order, which all ranks must share, is
// then a matter of chance.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "unisono/backend/backend.hpp"
#include "unisono/base/api.hpp"
#include "unisono/group/coalescing.hpp"
#include "unisono/group/hooks.hpp"
#include "unisono/store/store.hpp"
#include "unisono/work/collective_api.hpp"

namespace unisono {

class UNISONO_API ProcessGroup final : public CollectiveApi<ProcessGroup> {
 public:
  /// Without backends yet; the store may be null. Throws UsageError unless 0 <= rank < size.
  ProcessGroup(std::shared_ptr<Store> store, int rank, int size, std::string name = {});
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// Starts an operation; the typed methods end here. Throws UsageError when it is refused, what a
  /// pre-hook throws, and what the backend throws at once.
  WorkPtr submit(CollectiveArgs&& args);

  /// From here on operations on `device` are run by `backend`, which may serve several kinds of
  /// devices. UsageError when there is one already, or it is for another rank or size.
  void setBackend(DeviceType device, std::shared_ptr<Backend> backend);
  /// UsageError ("No backend type associated with device type cuda") when there is none.
  std::shared_ptr<Backend> backend(DeviceType device) const;
  bool hasBackend(DeviceType device) const;
  /// That of the CPU, or else of the first kind of device that has one.
  std::shared_ptr<Backend> defaultBackend() const;
  std::vector<DeviceType> deviceTypes() const;

  HookHandle addPreHook(PreHook hook);
  HookHandle addPostHook(PostHook hook);
  HookHandle addCompletionHook(CompletionHook hook);
  HookHandle addAbortHook(AbortHook hook);
  bool hasHooks() const noexcept;

  /// See CoalescingScope.
  CoalescingScope startCoalescing(DeviceType device = DeviceType::CPU);

  /// Returns when all ranks have called it; on rank 0 the error says which have not. Always by the
  /// backend of the CPU.
  void monitoredBarrier(const BarrierOptions& opts = {}, bool waitAllRanks = false);

  /// Ends what is under way in order and closes all backends; the first error of one is thrown
  /// when all have been closed.
  void shutdown();
  /// Fails what is under way and all that comes later with `reason`, or ABORTED without one; waits
  /// for nobody. The first call runs the abort hooks.
  void abort(std::exception_ptr reason = nullptr);

  int rank() const noexcept;
  int size() const noexcept;
  std::shared_ptr<Store> store() const;
  /// UsageError ("ProcessGroup name not set") before it has one.
  std::string groupName() const;
  void setGroupName(std::string name);
  std::string groupDesc() const;
  void setGroupDesc(std::string desc);
  /// The number of operations so far.
  std::uint64_t sequenceNumber() const noexcept;
  /// Of operations that have none of their own, on all backends.
  void setTimeout(std::chrono::milliseconds timeout);

 private:
  friend std::shared_ptr<GroupState> stateOf(const ProcessGroup& group);

  const std::shared_ptr<GroupState> state_;
};

}  // namespace unisono

// NativeBackend: unisono's own engines, for tensors in the memory of hosts.
//
// A synchronous operation on an idle group runs on the calling thread and returns the one finished
// Work: no allocation, no lock, no other thread. An asynchronous one is queued in the group's lane.
//
// Thread safety: as Backend.
#pragma once

#include <memory>

#include "unisono/backend/backend.hpp"

#include "backend/native/engine.hpp"
#include "base/fork.hpp"

namespace unisono {

class NativeBackend final : public Backend {
 public:
  /// Meets the other ranks. Throws as shm::Segment::form().
  explicit NativeBackend(const BackendParams& params);
  /// Also while other threads wait for works of it, and in a callback of one.
  ~NativeBackend() override;

  std::string_view name() const noexcept override { return "unisono"; }
  WorkPtr start(CollectiveArgs&& args) override;
  WorkPtr startCoalesced(std::vector<CollectiveArgs> batch) override;
  void monitoredBarrier(const BarrierOptions& opts, bool waitAllRanks) override;
  void abort(std::exception_ptr reason) override;
  void shutdown() override;
  ErrorType error() const override;
  bool supportsTensorAlloc(Device device) const override;
  /// Registered memory: operations of this group let peers reach it where it is.
  Tensor allocateTensor(std::int64_t count, DType type) override;
  std::uint64_t registeredUses() const override { return engine_->registeredUses(); }

 private:
  class NativeWork;

  WorkPtr runHere(CollectiveArgs& args);
  WorkPtr startMessage(CollectiveArgs&& args);
  /// Throws when the lane cannot take so many more.
  void checkRoom(std::size_t calls, OpType type) const;
  /// This rank as the world knows it: for texts that other ranks read.
  int globalRank() const;

  const ForkGuard madeIn_;
  const std::shared_ptr<Engine> engine_;
};

}  // namespace unisono

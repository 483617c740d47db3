// ProcessGroupWrapper: a backend around another, in which ranks compare calls before they begin.
//
//   auto checked = std::make_shared<ProcessGroupWrapper>(backend, store);
//   group->setBackend(DeviceType::CPU, checked);
//
// Before a collective every rank tells the others what it is about to call: the operation, its
// number among the collectives, and the shapes, types and devices of tensors that must be alike.
// Where that differs, the call throws on every rank, DistBackendError (MISMATCH), and says who
// called what. Nothing has been started then, and the group can still be used.
//
// That takes a round between the ranks for each collective, also where it is asynchronous: the
// call returns when all ranks have made theirs. Ranks that begin asynchronous collectives of two
// groups in different orders wait for each other then, until the timeout. Groups are made so at
// debug level DETAIL.
//
// Messages, batches and monitored barriers go through unchecked. Everything else is that of the
// wrapped backend.
//
// Thread safety: as Backend.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "unisono/backend/backend.hpp"
#include "unisono/base/api.hpp"

namespace unisono {

class UNISONO_API ProcessGroupWrapper final : public Backend {
 public:
  /// Ranks compare by an all_gather of the backend, or where it has none for memory of the CPU, by
  /// `store`, which they use for nothing else. UsageError when there is neither.
  explicit ProcessGroupWrapper(std::shared_ptr<Backend> wrapped,
                               std::shared_ptr<Store> store = nullptr);
  ~ProcessGroupWrapper() override;

  const std::shared_ptr<Backend>& wrapped() const noexcept { return wrapped_; }

  std::string_view name() const noexcept override { return wrapped_->name(); }
  WorkPtr start(CollectiveArgs&& args) override;
  WorkPtr startCoalesced(std::vector<CollectiveArgs> batch) override;
  void monitoredBarrier(const BarrierOptions& opts, bool waitAllRanks) override;
  /// Wrapped as well.
  std::shared_ptr<Backend> split(std::shared_ptr<Store> store, const std::vector<int>& ranks,
                                 const BackendOptions& options) override;
  void abort(std::exception_ptr reason) override;
  void shutdown() override { wrapped_->shutdown(); }
  ErrorType error() const override { return wrapped_->error(); }
  bool supportsTensorAlloc(Device device) const override {
    return wrapped_->supportsTensorAlloc(device);
  }
  Tensor allocateTensor(std::int64_t count, DType type) override {
    return wrapped_->allocateTensor(count, type);
  }
  std::uint64_t registeredUses() const override { return wrapped_->registeredUses(); }
  void setTimeout(std::chrono::milliseconds timeout) override;

 private:
  class Round;

  /// Throws unless all ranks are about to call the same.
  void compare(const CollectiveArgs& args);

  const std::shared_ptr<Backend> wrapped_;
  const std::unique_ptr<Round> round_;
  // Of collectives, which all ranks call alike; the group also numbers messages, which they do not.
  std::atomic<std::uint64_t> collectives_{0};
};

}  // namespace unisono

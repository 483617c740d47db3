// TorchBackend: a group of unisono, as the c10d::Backend that PyTorch drives.
//
// Every operation becomes the one of the same name of a ProcessGroup of ours, on views of the
// tensors it was given. Errors are those of torch.distributed, with our text; see errors.hpp.
//
// Thread safety: every method may be called from any thread, without the interpreter's lock. The
// destructor may be called with it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "unisono/group/process_group.hpp"

#include "base/mutex.hpp"

namespace unisono::plugin {

/// What torch.distributed calls this backend.
inline constexpr const char* kBackendName = "unisono";

class Blocks;

class TorchBackend final : public c10d::Backend {
 public:
  struct Options final : c10d::Backend::Options {
    explicit Options(std::chrono::milliseconds limit = kBackendDefaultTimeout)
        : c10d::Backend::Options(kBackendName, limit) {}
  };
  using OptionsPtr = c10::intrusive_ptr<Options>;
  using WorkRef = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;

  /// Meets the other ranks, by a store that nobody else uses. Throws c10's errors.
  TorchBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
               OptionsPtr options);
  ~TorchBackend() override;

  const std::string getBackendName() const override { return kBackendName; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  const OptionsPtr& options() const noexcept { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setGroupUid(const std::string& name) override;

  WorkRef broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkRef allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkRef allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkRef allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& opts) override;
  WorkRef reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkRef allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& opts) override;
  WorkRef _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& opts) override;
  WorkRef allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& opts) override;
  WorkRef allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override;
  WorkRef gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& opts) override;
  WorkRef scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& opts) override;
  WorkRef reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& opts) override;
  WorkRef _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& opts) override;
  WorkRef reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override;
  WorkRef alltoall_base(at::Tensor& output, at::Tensor& input,
                        std::vector<std::int64_t>& outputSplits,
                        std::vector<std::int64_t>& inputSplits,
                        const c10d::AllToAllOptions& opts) override;
  WorkRef alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  WorkRef send(Tensors& tensors, int dst, int tag) override;
  WorkRef recv(Tensors& tensors, int src, int tag) override;
  WorkRef recvAnysource(Tensors& tensors, int tag) override;
  WorkRef barrier(const c10d::BarrierOptions& opts) override;
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool waitAllRanks) override;

  void startCoalescing() override UNISONO_EXCLUDES(mutex_);
  WorkRef endCoalescing() override UNISONO_EXCLUDES(mutex_);

  /// Ranks count from the first operation on without agreeing on anything.
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return group_->sequenceNumber(); }

  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& opts) override;
  c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& opts,
                                          const int& rank, const int& size) override;

  c10d::ErrorType getError() override;
  bool supportsTensorAlloc(c10::DeviceIndex index) override { return index <= 0; }
  at::Tensor allocateTensor(long count, at::TensorOptions options) override;
  /// How many operations others have read, or changed, in such memory.
  std::uint64_t registeredUses() const;
  void abort() override;
  void shutdown() override;

 private:
  /// What an operation is for PyTorch, beside how it is started.
  struct Call {
    OpType type;
    Tensors inputs;                // for profiles
    std::vector<Tensors> outputs;  // one list, or several
    std::function<void(const TensorList&)> settle = {};
  };
  /// Starts the operation by `start`; null inside a coalescing scope.
  template <typename Start>
  WorkRef run(Call call, Start&& start) UNISONO_EXCLUDES(mutex_);

  const OptionsPtr options_;
  std::shared_ptr<ProcessGroup> group_;
  const std::shared_ptr<Blocks> blocks_;
  Mutex mutex_;
  std::optional<CoalescingScope> scope_ UNISONO_GUARDED_BY(mutex_);
  Tensors collected_ UNISONO_GUARDED_BY(mutex_);  // the outputs in the scope
  std::atomic<bool> collecting_{false};
};

/// Before the interpreter goes: ends what all groups of this process are at and closes them, in
/// two seconds each. Afterwards none of their threads needs Python. Without the interpreter's lock.
void leaveGroups() noexcept;

}  // namespace unisono::plugin

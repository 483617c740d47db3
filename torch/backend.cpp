#include "backend.hpp"

#include <ATen/ATen.h>
#include <algorithm>
#include <utility>

#include "unisono/backend/backend_table.hpp"

#include "base/fork.hpp"
#include "base/wait.hpp"
#include "blocks.hpp"
#include "convert.hpp"
#include "errors.hpp"
#include "python.hpp"
#include "store_adapter.hpp"
#include "work.hpp"

namespace unisono::plugin {
namespace {

int rankOf(std::int64_t rank) {
  if (rank < INT32_MIN || rank > INT32_MAX) {
    refuse("invalid root rank: " + std::to_string(rank));
  }
  return static_cast<int>(rank);
}

/// The groups of this process, and those of its parent before it was forked.
struct Groups {
  struct Each {
    std::weak_ptr<ProcessGroup> group;
    ForkGuard madeIn;
  };
  Mutex mutex;
  std::vector<Each> all UNISONO_GUARDED_BY(mutex);
};

Groups& groups() {
  static auto* const kept = new Groups;  // never destroyed: groups may outlive statics
  return *kept;
}

void remember(const std::shared_ptr<ProcessGroup>& group) {
  const MutexLock lock(groups().mutex);
  std::erase_if(groups().all, [](const auto& each) { return each.group.expired(); });
  groups().all.push_back({group, {}});
}

std::shared_ptr<ProcessGroup> makeGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                        int size, const TorchBackend::Options& options) {
  BackendParams params{.store = std::make_shared<StoreAdapter>(store), .rank = rank, .size = size};
  params.options.timeout = options.timeout;
  params.options.groupName = options.group_name;
  params.options.groupDesc = options.group_desc;
  for (const std::uint64_t global : options.global_ranks_in_group) {
    params.options.globalRanks.push_back(rankOf(static_cast<std::int64_t>(global)));
  }
  auto group = std::make_shared<ProcessGroup>(params.store, rank, size, options.group_name);
  group->setBackend(DeviceType::CPU, makeBackend("unisono", params));
  remember(group);
  return group;
}

/// Options of its own for a group that is made out of another.
TorchBackend::OptionsPtr copyOf(const c10d::Backend::Options& given) {
  auto options = c10::make_intrusive<TorchBackend::Options>(given.timeout);
  options->group_name = given.group_name;
  options->group_desc = given.group_desc;
  return options;
}

}  // namespace

TorchBackend::TorchBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                           OptionsPtr options)
    : c10d::Backend(rank, size),
      options_(std::move(options)),
      group_(forTorch([&] { return makeGroup(store, rank, size, *options_); })),
      blocks_(std::make_shared<Blocks>()) {
  init();
  pg_uid_ = options_->group_name;
}

TorchBackend::~TorchBackend() {
  // Threads of the group may need the interpreter to end what they are at.
  withoutInterpreter([this]() noexcept {
    {
      const MutexLock lock(mutex_);
      scope_.reset();
    }
    group_.reset();
  });
}

void TorchBackend::setTimeout(std::chrono::milliseconds timeout) {
  forTorch([&] { group_->setTimeout(timeout); });
  options_->timeout = timeout;
}

void TorchBackend::setGroupUid(const std::string& name) {
  c10d::Backend::setGroupUid(name);
  options_->group_name = name;
  group_->setGroupName(name);
}

template <typename Start>
TorchBackend::WorkRef TorchBackend::run(Call call, Start&& start) {
  return forTorch([&]() -> WorkRef {
    if (collecting_.load(std::memory_order_relaxed)) {
      if (call.settle) {
        refuse("a sparse tensor cannot be reduced inside a coalescing scope",
               "call all_reduce before the scope, or after it");
      }
      start();
      const MutexLock lock(mutex_);
      for (Tensors& list : call.outputs) {
        collected_.insert(collected_.end(), list.begin(), list.end());
      }
      return {};
    }
    auto work =
        c10::make_intrusive<TorchWork>(getRank(), call.type, call.inputs, std::move(call.outputs));
    WorkPtr inner = start();
    work->begin(std::move(inner), group_->sequenceNumber(), std::move(call.settle));
    return work;
  });
}

TorchBackend::WorkRef TorchBackend::broadcast(Tensors& tensors,
                                              const c10d::BroadcastOptions& opts) {
  return run({OpType::BROADCAST, tensors, {tensors}}, [&] {
    return group_->broadcast(viewsOf(tensors), {.rootRank = rankOf(opts.rootRank),
                                                .rootTensor = rankOf(opts.rootTensor),
                                                .timeout = opts.timeout,
                                                .asyncOp = opts.asyncOp});
  });
}

TorchBackend::WorkRef TorchBackend::allreduce(Tensors& tensors,
                                              const c10d::AllreduceOptions& opts) {
  if (!tensors.empty() && tensors.front().defined() && tensors.front().is_sparse()) {
    return allreduce_sparse(tensors, opts);
  }
  return run({OpType::ALLREDUCE, tensors, {tensors}}, [&] {
    return group_->allreduce(
        viewsOf(tensors, Use::REDUCES),
        {.reduceOp = reductionOf(opts.reduceOp), .timeout = opts.timeout, .asyncOp = opts.asyncOp});
  });
}

TorchBackend::WorkRef TorchBackend::allreduce_sparse(Tensors& tensors,
                                                     const c10d::AllreduceOptions& opts) {
  return forTorch([&] {
    if (tensors.size() != 1) {
      refuse("requires a single-element tensor list for sparse tensors");
    }
    if (tensors.front().layout() != at::kSparse) {
      refuse("unsupported layout");
    }
    const at::Tensor tensor = tensors.front();
    const auto settle = [tensor](const TensorList& sum) {
      const auto tensorOf = [](const Tensor& view, at::ScalarType type) {
        const std::vector<std::int64_t> sizes(view.sizes().begin(), view.sizes().end());
        return at::from_blob(
            view.data(), sizes, [view](void*) {}, type);
      };
      const at::Tensor whole = at::_sparse_coo_tensor_unsafe(
          tensorOf(sum[0], at::kLong).clone(), tensorOf(sum[1], tensor.scalar_type()).clone(),
          tensor.sizes());
      const at::NoGradGuard belowAutograd;  // it may be a leaf
      at::Tensor target = tensor;
      target.copy_(whole._coalesced_(true));
    };
    return run({OpType::ALLREDUCE_SPARSE, tensors, {tensors}, settle}, [&] {
      const at::IntArrayRef sizes = tensor.sizes();
      return group_->allreduceSparse(
          {.indices = viewOf(tensor._indices().contiguous(), Use::COPIES),
           .values = viewOf(tensor._values().contiguous(), Use::REDUCES),
           .sizes = Dims(std::span<const std::int64_t>(sizes.data(), sizes.size()))},
          {.reduceOp = reductionOf(opts.reduceOp),
           .timeout = opts.timeout,
           .asyncOp = opts.asyncOp});
    });
  });
}

TorchBackend::WorkRef TorchBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) {
  return run({OpType::ALLREDUCE_COALESCED, tensors, {tensors}}, [&] {
    return group_->allreduceCoalesced(
        viewsOf(tensors, Use::REDUCES),
        {.reduceOp = reductionOf(opts.reduceOp), .timeout = opts.timeout, .asyncOp = opts.asyncOp});
  });
}

TorchBackend::WorkRef TorchBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  return run({OpType::REDUCE, tensors, {tensors}}, [&] {
    return group_->reduce(viewsOf(tensors, Use::REDUCES), {.reduceOp = reductionOf(opts.reduceOp),
                                                           .rootRank = rankOf(opts.rootRank),
                                                           .rootTensor = rankOf(opts.rootTensor),
                                                           .timeout = opts.timeout,
                                                           .asyncOp = opts.asyncOp});
  });
}

TorchBackend::WorkRef TorchBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& opts) {
  return run({OpType::ALLGATHER, inputs, outputs}, [&] {
    return group_->allgather(viewsOf(outputs), viewsOf(inputs),
                             {.timeout = opts.timeout, .asyncOp = opts.asyncOp});
  });
}

TorchBackend::WorkRef TorchBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                    const c10d::AllgatherOptions& opts) {
  return run({OpType::ALLGATHER_BASE, {input}, {{output}}}, [&] {
    return group_->allGatherSingle(viewOf(output, Use::COPIES), viewOf(input, Use::COPIES),
                                   {.timeout = opts.timeout, .asyncOp = opts.asyncOp});
  });
}

TorchBackend::WorkRef TorchBackend::allgather_coalesced(std::vector<Tensors>& outputs,
                                                        Tensors& inputs,
                                                        const c10d::AllgatherOptions& opts) {
  return run({OpType::ALLGATHER_COALESCED, inputs, outputs}, [&] {
    return group_->allgatherCoalesced(viewsOf(outputs), viewsOf(inputs),
                                      {.timeout = opts.timeout, .asyncOp = opts.asyncOp});
  });
}

TorchBackend::WorkRef TorchBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  return run({OpType::ALLGATHER_INTO_TENSOR_COALESCED, inputs, {outputs}}, [&] {
    return group_->allGatherSingleCoalesced(viewsOf(outputs), viewsOf(inputs),
                                            {.timeout = opts.timeout, .asyncOp = opts.asyncOp});
  });
}

TorchBackend::WorkRef TorchBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                           const c10d::GatherOptions& opts) {
  return run({OpType::GATHER, inputs, outputs}, [&] {
    return group_->gather(
        viewsOf(outputs), viewsOf(inputs),
        {.rootRank = rankOf(opts.rootRank), .timeout = opts.timeout, .asyncOp = opts.asyncOp});
  });
}

TorchBackend::WorkRef TorchBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                            const c10d::ScatterOptions& opts) {
  return run({OpType::SCATTER, inputs.empty() ? Tensors{} : inputs.front(), {outputs}}, [&] {
    return group_->scatter(
        viewsOf(outputs), viewsOf(inputs),
        {.rootRank = rankOf(opts.rootRank), .timeout = opts.timeout, .asyncOp = opts.asyncOp});
  });
}

TorchBackend::WorkRef TorchBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                   const c10d::ReduceScatterOptions& opts) {
  return run({OpType::REDUCE_SCATTER, inputs.empty() ? Tensors{} : inputs.front(), {outputs}}, [&] {
    return group_->reduceScatter(
        viewsOf(outputs, Use::REDUCES), viewsOf(inputs, Use::REDUCES),
        {.reduceOp = reductionOf(opts.reduceOp), .timeout = opts.timeout, .asyncOp = opts.asyncOp});
  });
}

TorchBackend::WorkRef TorchBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                         const c10d::ReduceScatterOptions& opts) {
  return run({OpType::REDUCE_SCATTER_BASE, {input}, {{output}}}, [&] {
    return group_->reduceScatterSingle(
        viewOf(output, Use::REDUCES), viewOf(input, Use::REDUCES),
        {.reduceOp = reductionOf(opts.reduceOp), .timeout = opts.timeout, .asyncOp = opts.asyncOp});
  });
}

TorchBackend::WorkRef TorchBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& opts) {
  return run({OpType::REDUCE_SCATTER_TENSOR_COALESCED, inputs, {outputs}}, [&] {
    return group_->reduceScatterSingleCoalesced(
        viewsOf(outputs, Use::REDUCES), viewsOf(inputs, Use::REDUCES),
        {.reduceOp = reductionOf(opts.reduceOp), .timeout = opts.timeout, .asyncOp = opts.asyncOp});
  });
}

TorchBackend::WorkRef TorchBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                  std::vector<std::int64_t>& outputSplits,
                                                  std::vector<std::int64_t>& inputSplits,
                                                  const c10d::AllToAllOptions& opts) {
  TORCH_CHECK_VALUE(input.is_contiguous(),
                    "unisono: all_to_all_single: Tensors must be contiguous.",
                    " DO: give input.contiguous(). [USAGE]");
  return run({OpType::ALLTOALL_BASE, {input}, {{output}}}, [&] {
    return group_->allToAllSingle(viewOf(output, Use::COPIES), viewOf(input, Use::COPIES),
                                  outputSplits, inputSplits,
                                  {.timeout = opts.timeout, .asyncOp = opts.asyncOp});
  });
}

TorchBackend::WorkRef TorchBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                             const c10d::AllToAllOptions& opts) {
  return run({OpType::ALLTOALL, inputs, {outputs}}, [&] {
    return group_->allToAll(viewsOf(outputs), viewsOf(inputs),
                            {.timeout = opts.timeout, .asyncOp = opts.asyncOp});
  });
}

TorchBackend::WorkRef TorchBackend::send(Tensors& tensors, int dst, int tag) {
  return run({OpType::SEND, tensors, {{}}},
             [&] { return group_->send(viewsOf(tensors), dst, tag); });
}

TorchBackend::WorkRef TorchBackend::recv(Tensors& tensors, int src, int tag) {
  return run({OpType::RECV, tensors, {tensors}},
             [&] { return group_->recv(viewsOf(tensors), src, tag); });
}

TorchBackend::WorkRef TorchBackend::recvAnysource(Tensors& tensors, int tag) {
  return run({OpType::RECVANYSOURCE, tensors, {tensors}},
             [&] { return group_->recvAnysource(viewsOf(tensors), tag); });
}

TorchBackend::WorkRef TorchBackend::barrier(const c10d::BarrierOptions& opts) {
  return run({OpType::BARRIER, {}, {{}}},
             [&] { return group_->barrier({.timeout = opts.timeout, .asyncOp = opts.asyncOp}); });
}

void TorchBackend::monitoredBarrier(const c10d::BarrierOptions& opts, bool waitAllRanks) {
  forTorch([&] { group_->monitoredBarrier({.timeout = opts.timeout}, waitAllRanks); });
}

void TorchBackend::startCoalescing() {
  forTorch([&] {
    CoalescingScope scope = group_->startCoalescing();
    const MutexLock lock(mutex_);
    scope_.emplace(std::move(scope));
    collected_.clear();
    collecting_.store(true, std::memory_order_relaxed);
  });
}

TorchBackend::WorkRef TorchBackend::endCoalescing() {
  std::optional<CoalescingScope> scope;
  Tensors outputs;
  {
    const MutexLock lock(mutex_);
    collecting_.store(false, std::memory_order_relaxed);
    if (scope_) {
      scope.emplace(std::move(*scope_));
      scope_.reset();
    }
    outputs.swap(collected_);
  }
  return run({OpType::COALESCED, outputs, {outputs}}, [&] {
    if (!scope) {
      refuse("endCoalescing without startCoalescing");
    }
    return scope->end();
  });
}

c10::intrusive_ptr<c10d::Backend> TorchBackend::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<c10d::Backend::Options>& opts) {
  const auto mine = std::find(ranks.begin(), ranks.end(), getRank());
  if (mine == ranks.end()) {
    return {};
  }
  OptionsPtr options = copyOf(opts ? *opts : static_cast<c10d::Backend::Options&>(*options_));
  const std::vector<std::uint64_t>& all = options_->global_ranks_in_group;
  for (const int rank : ranks) {
    const auto index = static_cast<std::size_t>(rank);
    options->global_ranks_in_group.push_back(all.empty() ? index : all.at(index));
  }
  return c10::make_intrusive<TorchBackend>(store, static_cast<int>(mine - ranks.begin()),
                                           static_cast<int>(ranks.size()), std::move(options));
}

c10::intrusive_ptr<c10d::Backend> TorchBackend::merge(
    const c10::intrusive_ptr<c10d::Store>& store,
    const c10::intrusive_ptr<c10d::Backend::Options>& opts, const int& rank, const int& size) {
  OptionsPtr options = copyOf(opts ? *opts : static_cast<c10d::Backend::Options&>(*options_));
  return c10::make_intrusive<TorchBackend>(store, rank, size, std::move(options));
}

c10d::ErrorType TorchBackend::getError() {
  return static_cast<c10d::ErrorType>(group_->backend(DeviceType::CPU)->error());
}

at::Tensor TorchBackend::allocateTensor(long count, at::TensorOptions options) {
  return forTorch([&]() -> at::Tensor {
    at::ScalarType type = c10::typeMetaToScalarType(options.dtype());
    if (c10::isComplexType(type)) {
      // PyTorch lays complex gradients into the memory of real ones, but forgets to take the real
      // view of what it gets here.
      type = c10::toRealValueType(type);
      count *= 2;
    }
    return blocks_->take(*group_->backend(DeviceType::CPU), count, options.dtype(type));
  });
}

std::uint64_t TorchBackend::registeredUses() const {
  return group_->backend(DeviceType::CPU)->registeredUses();
}

void TorchBackend::abort() {
  forTorch([&] { group_->abort(); });
}

void TorchBackend::shutdown() {
  forTorch([&] { group_->shutdown(); });
}

void leaveGroups() noexcept {
  constexpr Milliseconds kToEnd(2000);
  std::vector<Groups::Each> all;
  {
    const MutexLock lock(groups().mutex);
    all.swap(groups().all);
  }
  std::erase_if(all, [](const auto& each) { return each.madeIn.inChild(); });
  if (all.empty()) {
    return;
  }
  for (const auto& each : all) {
    try {
      if (const auto group = each.group.lock()) {
        group->setTimeout(kToEnd);
        group->shutdown();
      }
    } catch (...) {  // it has been closed nevertheless
    }
  }
  const WaitContext context{
      .deadline = Deadline::after(kToEnd), .subject = {}, .interruptible = false};
  TimerWaitable moment(Milliseconds(1));
  static_cast<void>(
      waitUntil([] { return CountedCallback::toCome()->load() == 0; }, context, moment));
}

}  // namespace unisono::plugin

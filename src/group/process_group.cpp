#include "unisono/group/process_group.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "group/group_state.hpp"

namespace unisono {
namespace {

/// A handle that does nothing once the group is gone.
template <typename List, typename Hook>
HookHandle addTo(const std::shared_ptr<GroupState>& state, List GroupState::*list, Hook hook) {
  UNISONO_CHECK(hook != nullptr, "a hook has to be something that can be called");
  const std::uint64_t id = ((*state).*list).add(std::move(hook));
  return HookHandle([weak = std::weak_ptr(state), list, id] {
    if (const auto alive = weak.lock()) {
      ((*alive).*list).remove(id);
    }
  });
}

/// This rank as the world counts it.
int worldRank(const GroupState& state) {
  const std::vector<std::shared_ptr<Backend>> all = state.allBackends();
  if (all.empty() || all.front()->options().globalRanks.empty()) {
    return state.rank;
  }
  return all.front()->options().globalRanks.at(static_cast<std::size_t>(state.rank));
}

}  // namespace

std::shared_ptr<GroupState> stateOf(const ProcessGroup& group) {
  return group.state_;
}

ProcessGroup::ProcessGroup(std::shared_ptr<Store> store, int rank, int size, std::string name)
    : state_(std::make_shared<GroupState>(std::move(store), rank, size)) {
  UNISONO_CHECK(rank >= 0 && rank < size, "rank ", rank, " is none of a group of ", size);
  setGroupName(std::move(name));
}

ProcessGroup::~ProcessGroup() = default;

WorkPtr ProcessGroup::submit(CollectiveArgs&& args) {
  GroupState& state = *state_;
  Backend& backend = state.pick(args);
  backend.check(args);
  // Relaxed: a hook that is added now may as well miss this operation.
  const std::uint32_t observed =
      state.present.load(std::memory_order_relaxed) & GroupState::kObserved;
  if (observed != 0) [[unlikely]] {
    return state.submitObserved(backend, std::move(args), observed);
  }
  args.seq = state.takeNumber();
  return backend.start(std::move(args));
}

void ProcessGroup::setBackend(DeviceType device, std::shared_ptr<Backend> backend) {
  UNISONO_CHECK(backend != nullptr, "a group cannot have no backend for ", name(device));
  UNISONO_CHECK(backend->rank() == rank() && backend->size() == size(), "a backend for rank ",
                backend->rank(), " of ", backend->size(), " is not for rank ", rank(), " of ",
                size());
  UNISONO_CHECK(backend->capabilities().devices.has(device), "Backend ", backend->name(),
                " does not support device type ", name(device));
  const auto index = static_cast<std::size_t>(device);
  bool taken = false;
  {
    const MutexLock lock(state_->mutex);
    taken = state_->backends[index] != nullptr;
    if (!taken) {
      // Release: see byDevice.
      state_->byDevice[index].store(backend.get(), std::memory_order_release);
      state_->backends[index] = std::move(backend);
    }
  }
  if (taken) {
    state_->refuse(str("this group already has a backend for ", name(device)));
  }
}

std::shared_ptr<Backend> ProcessGroup::backend(DeviceType device) const {
  return state_->backendFor(device);
}

bool ProcessGroup::hasBackend(DeviceType device) const {
  return state_->byDevice[static_cast<std::size_t>(device)].load(std::memory_order_acquire) !=
         nullptr;
}

std::shared_ptr<Backend> ProcessGroup::defaultBackend() const {
  const std::vector<std::shared_ptr<Backend>> all = state_->allBackends();
  if (all.empty()) {
    state_->refuse("Could not find the default backend type for Process Group: it has no backend");
  }
  return all.front();  // devices are in the order of their numbers, the CPU first
}

std::vector<DeviceType> ProcessGroup::deviceTypes() const {
  std::vector<DeviceType> types;
  for (int i = 0; i < kDeviceTypeCount; ++i) {
    if (hasBackend(static_cast<DeviceType>(i))) {
      types.push_back(static_cast<DeviceType>(i));
    }
  }
  return types;
}

HookHandle ProcessGroup::addPreHook(PreHook hook) {
  return addTo(state_, &GroupState::preHooks, std::move(hook));
}

HookHandle ProcessGroup::addPostHook(PostHook hook) {
  return addTo(state_, &GroupState::postHooks, std::move(hook));
}

HookHandle ProcessGroup::addCompletionHook(CompletionHook hook) {
  return addTo(state_, &GroupState::completionHooks, std::move(hook));
}

HookHandle ProcessGroup::addAbortHook(AbortHook hook) {
  return addTo(state_, &GroupState::abortHooks, std::move(hook));
}

bool ProcessGroup::hasHooks() const noexcept {
  return (state_->present.load(std::memory_order_relaxed) & GroupState::kHooks) != 0;
}

CoalescingScope ProcessGroup::startCoalescing(DeviceType device) {
  state_->openBatch(device);
  return CoalescingScope(state_);
}

void ProcessGroup::monitoredBarrier(const BarrierOptions& opts, bool waitAllRanks) {
  state_->checkNotDestroyed();
  const std::shared_ptr<Backend> cpu = backend(DeviceType::CPU);
  state_->takeNumber();
  cpu->monitoredBarrier(opts, waitAllRanks);
}

void ProcessGroup::shutdown() {
  std::exception_ptr first;
  for (const std::shared_ptr<Backend>& each : state_->allBackends()) {
    try {
      each->shutdown();
    } catch (...) {
      first = first ? first : std::current_exception();
    }
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

void ProcessGroup::abort(std::exception_ptr reason) {
  if (!reason) {
    std::string group;
    {
      const MutexLock lock(state_->mutex);
      group = state_->name;
    }
    reason = std::make_exception_ptr(
        DistBackendError({.reason = Reason::ABORTED,
                          .what = "this rank aborted the group",
                          .hint = "make a new group: an aborted one stays unusable",
                          .group = std::move(group),
                          .rank = rank(),
                          .world = size(),
                          .culprits = {worldRank(*state_)}}));
  }
  if (!state_->aborted.exchange(true, std::memory_order_acq_rel)) {
    runHooks(*state_->abortHooks.now(), "an abort hook", reason);
  }
  for (const std::shared_ptr<Backend>& each : state_->allBackends()) {
    try {
      each->abort(reason);
    } catch (const std::exception& error) {
      UNISONO_LOG(ERROR, "group", "backend ", each->name(), " did not abort: ", error.what());
    }
  }
}

int ProcessGroup::rank() const noexcept {
  return state_->rank;
}

int ProcessGroup::size() const noexcept {
  return state_->size;
}

std::shared_ptr<Store> ProcessGroup::store() const {
  return state_->store;
}

std::string ProcessGroup::groupName() const {
  const MutexLock lock(state_->mutex);
  UNISONO_CHECK(!state_->name.empty(), "ProcessGroup name not set");
  return state_->name;
}

void ProcessGroup::setGroupName(std::string name) {
  const MutexLock lock(state_->mutex);
  state_->name = std::move(name);
}

std::string ProcessGroup::groupDesc() const {
  const MutexLock lock(state_->mutex);
  return state_->desc;
}

void ProcessGroup::setGroupDesc(std::string desc) {
  const MutexLock lock(state_->mutex);
  state_->desc = std::move(desc);
}

std::uint64_t ProcessGroup::sequenceNumber() const noexcept {
  return state_->seq.load(std::memory_order_relaxed);
}

void ProcessGroup::setTimeout(std::chrono::milliseconds timeout) {
  for (const std::shared_ptr<Backend>& each : state_->allBackends()) {
    each->setTimeout(timeout);
  }
}

}  // namespace unisono

#include "group/group_state.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace unisono {

void GroupState::refuse(std::string what, std::string hint) const {
  refuseAs(Reason::USAGE, std::move(what), std::move(hint));
}

void GroupState::refuseDestroyed(std::string what) const {
  refuseAs(Reason::SHUTDOWN, std::move(what), "make a new group: a destroyed one stays unusable");
}

void GroupState::refuseAs(Reason reason, std::string what, std::string hint) const {
  std::string group;
  {
    const MutexLock lock(mutex);
    group = name;
  }
  throw UsageError({.reason = reason,
                    .what = std::move(what),
                    .hint = std::move(hint),
                    .group = std::move(group),
                    .rank = rank,
                    .world = size});
}

Backend& GroupState::pick(const CollectiveArgs& args) const {
  const Tensor* const tensor = args.anyTensor();
  const DeviceType type = tensor != nullptr ? tensor->device().type : args.device.type;
  // Acquire: see byDevice.
  Backend* backend = byDevice[static_cast<std::size_t>(type)].load(std::memory_order_acquire);
  if (backend != nullptr) [[likely]] {
    return *backend;
  }
  return pickAnother(args, type);
}

Backend& GroupState::pickAnother(const CollectiveArgs& args, DeviceType type) const {
  const Tensor* const tensor = args.anyTensor();
  if (tensor == nullptr && args.type != OpType::BARRIER) {
    refuse(str(opName(args.type), " refused: There were no tensor arguments to this function"),
           "give it a tensor: its device decides which backend runs the operation");
  }
  if (args.type == OpType::BARRIER && type == DeviceType::CPU) {
    // Nobody asked for the CPU: any backend will do.
    for (const std::atomic<Backend*>& other : byDevice) {
      if (Backend* const any = other.load(std::memory_order_acquire)) {
        return *any;
      }
    }
  }
  return *backendFor(type);
}

std::shared_ptr<Backend> GroupState::backendFor(DeviceType type) const {
  std::string known;
  {
    const MutexLock lock(mutex);
    if (const auto& found = backends[static_cast<std::size_t>(type)]) {
      return found;
    }
    for (std::size_t i = 0; i < backends.size(); ++i) {
      if (backends[i]) {
        known += str(known.empty() ? "" : ", ", unisono::name(static_cast<DeviceType>(i)), ":",
                     backends[i]->name());
      }
    }
  }
  refuse(str("No backend type associated with device type ", unisono::name(type),
             "; this group has ", known.empty() ? "none at all" : known),
         "make the group with a backend for it, as in \"cpu:unisono\"");
}

std::vector<std::shared_ptr<Backend>> GroupState::allBackends() const {
  std::vector<std::shared_ptr<Backend>> all;
  const MutexLock lock(mutex);
  for (const std::shared_ptr<Backend>& backend : backends) {
    if (backend && std::find(all.begin(), all.end(), backend) == all.end()) {
      all.push_back(backend);
    }
  }
  return all;
}

void GroupState::runPreHooks(const CollectiveArgs& args, std::uint64_t number) {
  const auto hooks = preHooks.now();  // kept: another thread may be changing the list
  for (const auto& [id, hook] : *hooks) {
    hook({args, number});
  }
}

void GroupState::tellStarted(OpType type, std::uint64_t number, const WorkPtr& work,
                             std::uint32_t observed) {
  if ((observed & kPost) != 0) {
    runHooks(*postHooks.now(), "a post-hook", StartedCall{type, number, work});
  }
  if ((observed & kCompletion) != 0) {
    // The work is kept by its own callback until it has ended, which every work does.
    work->addCallback([hooks = completionHooks.now(), type, number, work] {
      WorkInfo info = work->info();
      info.opType = type;
      info.seq = number;
      runHooks(*hooks, "a completion hook", info);
    });
  }
}

void GroupState::tellFailed(OpType type, std::uint64_t number, std::exception_ptr error) {
  const WorkInfo info = failedWork(type, number, std::move(error))->info();
  runHooks(*completionHooks.now(), "a completion hook", info);
}

WorkPtr GroupState::submitObserved(Backend& backend, CollectiveArgs&& args,
                                   std::uint32_t observed) {
  if ((observed & kDestroyed) != 0) {
    refuseDestroyed(str(opName(args.type), " refused: this group has been destroyed"));
  }
  if ((observed & kPre) != 0) {
    // Before the number is taken: a call that is refused leaves the group in step with its peers.
    runPreHooks(args, nextNumber());
  }
  if ((observed & kCoalescing) != 0) {
    const Tensor* const tensor = args.anyTensor();
    if (WorkPtr work = collect(args, (tensor ? tensor->device() : args.device).type)) {
      return work;
    }
  }
  const OpType type = args.type;
  const std::uint64_t number = args.seq = takeNumber();
  WorkPtr work;
  try {
    work = backend.start(std::move(args));
  } catch (...) {
    tellFailed(type, number, std::current_exception());
    throw;
  }
  tellStarted(type, number, work, observed);
  return work;
}

}  // namespace unisono

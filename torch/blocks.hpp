// Blocks: registered memory for PyTorch's tensors, kept for the next one of the same size.
//
// DDP takes its buckets once, but FSDP2 takes buffers anew at every layer of every step: to make
// and map such memory each time would cost more than it saves. So what a tensor lets go of is given
// to the next one, as long as no operation has failed: then another rank may still write there.
//
// Thread safety: take() from any thread. Tensors may go on any thread, and after their group.
#pragma once

#include <ATen/ATen.h>
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "unisono/backend/backend.hpp"

#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "convert.hpp"

namespace unisono::plugin {

class Blocks : public std::enable_shared_from_this<Blocks> {
 public:
  /// A row of `count` elements of any value, in memory of `backend`; in ordinary memory when that
  /// has none left.
  at::Tensor take(Backend& backend, std::int64_t count, const at::TensorOptions& options) {
    const DType type = dtypeOf(c10::typeMetaToScalarType(options.dtype()), Use::COPIES);
    const Tensor block = find(backend, count, type);
    if (!block.defined()) {
      return at::empty({count}, options);  // slower, and as right
    }
    const auto goes = [block, keeper = weak_from_this()](void*) {
      if (const auto self = keeper.lock()) {
        self->keep(block);
      }
    };
    return at::from_blob(block.data(), {count}, goes, options);
  }

 private:
  static constexpr std::size_t kMostIdle = 64;

  /// Undefined when there is none.
  Tensor find(Backend& backend, std::int64_t count, DType type) UNISONO_EXCLUDES(mutex_) {
    if (backend.error() != ErrorType::SUCCESS) {
      forget();
      return {};
    }
    {
      const MutexLock lock(mutex_);
      const auto fits = std::ranges::find_if(
          idle_, [&](const Tensor& each) { return each.dtype() == type && each.numel() == count; });
      if (fits != idle_.end()) {
        Tensor found = std::move(*fits);
        idle_.erase(fits);
        return found;
      }
    }
    Tensor made = make(backend, count, type);
    if (!made.defined() && forget()) {
      made = make(backend, count, type);
    }
    return made;
  }

  static Tensor make(Backend& backend, std::int64_t count, DType type) {
    try {
      return backend.allocateTensor(count, type);
    } catch (const DistError& error) {
      if (error.reason() != Reason::LIMIT && error.reason() != Reason::RESOURCE) {
        throw;
      }
      return {};
    }
  }

  void keep(const Tensor& block) UNISONO_EXCLUDES(mutex_) {
    if (madeIn_.inChild()) {
      return;  // it is the parent's
    }
    Tensor oldest;  // goes without the lock
    const MutexLock lock(mutex_);
    idle_.push_back(block);
    if (idle_.size() > kMostIdle) {
      oldest = std::move(idle_.front());
      idle_.erase(idle_.begin());
    }
  }

  /// Lets go of what nobody uses; whether there was something.
  bool forget() UNISONO_EXCLUDES(mutex_) {
    std::vector<Tensor> gone;
    const MutexLock lock(mutex_);
    gone.swap(idle_);
    return !gone.empty();
  }

  const ForkGuard madeIn_;
  Mutex mutex_;
  std::vector<Tensor> idle_ UNISONO_GUARDED_BY(mutex_);  // the oldest first
};

}  // namespace unisono::plugin

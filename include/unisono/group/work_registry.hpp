// Works by memory: how code that is given only a tensor waits for what writes to it.
//
//   registerWork(total, group.allreduce(total));
//   …
//   waitTensor(slice(total, 0, 10));  // can be read from here on
//
// One table for the process. What is registered belongs to the owner of a tensor's memory
// (Tensor::keepAlive()), which all views share, and is not kept by the table: when the memory goes,
// so do its works. Tensors without an owner cannot be told from others that are made in the same
// place later; their works are waited for as such.
//
// Thread safety: every function may be called from any thread. Any thread may wait for what another
// has registered.
#pragma once

#include <cstddef>

#include "unisono/base/api.hpp"
#include "unisono/tensor/tensor.hpp"
#include "unisono/work/work.hpp"

namespace unisono {

/// Lets waitTensor() of `tensor`, and of every view of its memory, wait for `work`, and for what
/// was registered before. The same work counts once. UsageError when no owner keeps the memory.
UNISONO_API void registerWork(const Tensor& tensor, const WorkPtr& work);

/// Waits until all that is registered for the memory of `tensor` has ended, and gives it back.
/// Throws what the first that failed has failed with, after all have ended; it is told once. Where
/// nothing is registered it returns at once, so it may be called again.
UNISONO_API Tensor waitTensor(const Tensor& tensor);

/// How many works the calling thread has registered that nobody has waited for by their tensors,
/// counted once for each memory that is still there.
UNISONO_API std::size_t workRegistrySize();

}  // namespace unisono

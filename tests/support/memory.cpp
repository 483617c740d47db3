#include "support/memory.hpp"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <malloc.h>
#include <new>

namespace {

constexpr std::size_t kUsual = alignof(std::max_align_t);
constinit std::atomic<std::size_t> live{0};
constinit std::atomic<std::size_t> peak{0};
constinit std::atomic<std::size_t> largestAllowed{std::numeric_limits<std::size_t>::max()};
constinit thread_local std::size_t allocations = 0;
constinit std::atomic<int> untilFailure{-1};  // how many more succeed; -1: all

bool shallFail(std::size_t size) noexcept {
  return size > largestAllowed.load(std::memory_order_relaxed) ||
         (untilFailure.load(std::memory_order_relaxed) >= 0 &&
          untilFailure.fetch_sub(1, std::memory_order_relaxed) == 0);
}

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  allocations += 1;
  if (shallFail(size)) {
    return nullptr;
  }
  void* memory =
      alignment <= kUsual
          ? std::malloc(size == 0 ? 1 : size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory != nullptr) {
    const std::size_t now = live.fetch_add(malloc_usable_size(memory), std::memory_order_relaxed) +
                            malloc_usable_size(memory);
    std::size_t most = peak.load(std::memory_order_relaxed);
    while (most < now && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {}
  }
  return memory;
}

void* allocateOrThrow(std::size_t size, std::size_t alignment) {
  void* memory = allocate(size, alignment);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

void release(void* memory) noexcept {
  if (memory != nullptr) {
    live.fetch_sub(malloc_usable_size(memory), std::memory_order_relaxed);
    std::free(memory);
  }
}

}  // namespace

// All forms, since a sanitizer brings its own for those that are missing, and checks that both
// ends of an allocation match.
void* operator new(std::size_t size) {
  return allocateOrThrow(size, kUsual);
}
void* operator new[](std::size_t size) {
  return allocateOrThrow(size, kUsual);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, kUsual);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, kUsual);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocateOrThrow(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocateOrThrow(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete[](void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  release(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  release(memory);
}

namespace unisono::test {

std::size_t liveBytes() noexcept {
  return live.load(std::memory_order_relaxed);
}

std::size_t peakBytes() noexcept {
  return peak.load(std::memory_order_relaxed);
}

std::size_t allocationsHere() noexcept {
  return allocations;
}

void resetPeakBytes() noexcept {
  peak.store(live.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

AllocationLimit::AllocationLimit(std::size_t largest) noexcept {
  largestAllowed.store(largest, std::memory_order_relaxed);
}

AllocationLimit::~AllocationLimit() {
  largestAllowed.store(std::numeric_limits<std::size_t>::max(), std::memory_order_relaxed);
}

FailingAllocation::FailingAllocation(int which) noexcept {
  untilFailure.store(which, std::memory_order_relaxed);
}

FailingAllocation::~FailingAllocation() {
  untilFailure.store(-1, std::memory_order_relaxed);
}

bool FailingAllocation::happened() const noexcept {
  return untilFailure.load(std::memory_order_relaxed) < 0;
}

}  // namespace unisono::test

// Hooks: what the compiler and the linker put between the code under test and the machine.
//
// -fsanitize=thread makes a call of every atomic access; ThreadSanitizer's own library, which would
// answer those calls, is not linked. Plain accesses are called out too, and pass: data is only
// touched between points, so whoever reads it too early or writes it too early is seen to do so.
// System calls that wait or ask for the time are redirected by the linker (--wrap).
#include <cstdarg>
#include <cstdint>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "explore/machine.hpp"
#include "explore/pool.hpp"

namespace {

using unisono::Milliseconds;
using unisono::explore::Access;
using unisono::explore::Machine;
using unisono::explore::Pool;

/// The machine, when `address` is shared memory of a run.
Machine* machineFor(const volatile void* address) noexcept {
  return Pool::has(address) ? Machine::running() : nullptr;
}

template <typename T>
Access accessOf(const volatile T* address, Access::Kind kind, int order) noexcept {
  return {const_cast<T*>(address), sizeof(T), kind, order == __ATOMIC_SEQ_CST};
}

template <typename T>
T load(const volatile T* address, int order) noexcept {
  if (Machine* machine = machineFor(address)) {
    const Access access = accessOf(address, Access::LOAD, order);
    static_cast<void>(machine->point(access));
    if (std::uint64_t own = 0; machine->findDelayed(access, own)) {
      return static_cast<T>(own);
    }
  }
  return __atomic_load_n(address, __ATOMIC_SEQ_CST);
}

template <typename T>
void store(volatile T* address, T value, int order) noexcept {
  if (Machine* machine = machineFor(address)) {
    const Access access = accessOf(address, Access::STORE, order);
    if (machine->point(access)) {
      machine->delay(access, static_cast<std::uint64_t>(value));
      return;
    }
  }
  __atomic_store_n(address, value, __ATOMIC_SEQ_CST);
}

/// Replaces what is there by `next(what is there)`; returns what was there.
template <typename T, typename Next>
T change(volatile T* address, int order, Next next) noexcept {
  if (Machine* machine = machineFor(address)) {
    const Access access = accessOf(address, Access::CHANGE, order);
    if (machine->point(access)) {
      const T before = *address;
      machine->delay(access, static_cast<std::uint64_t>(next(before)));
      return before;
    }
  }
  T before = __atomic_load_n(address, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(address, &before, next(before), false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST)) {}
  return before;
}

template <typename T>
bool swapIf(volatile T* address, T* expected, T value, int order) noexcept {
  if (Machine* machine = machineFor(address)) {
    static_cast<void>(machine->point(accessOf(address, Access::CHANGE, order)));
    machine->drain();
  }
  return __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST);
}

}  // namespace

extern "C" {

// --- what -fsanitize=thread calls ---

#define UNISONO_ATOMICS(bits, T)                                                                 \
  T __tsan_atomic##bits##_load(const volatile T* a, int order) {                                 \
    return load(a, order);                                                                       \
  }                                                                                              \
  void __tsan_atomic##bits##_store(volatile T* a, T v, int order) {                              \
    store(a, v, order);                                                                          \
  }                                                                                              \
  T __tsan_atomic##bits##_exchange(volatile T* a, T v, int order) {                              \
    return change(a, order, [v](T) { return v; });                                               \
  }                                                                                              \
  T __tsan_atomic##bits##_fetch_add(volatile T* a, T v, int order) {                             \
    return change(a, order, [v](T old) { return static_cast<T>(old + v); });                     \
  }                                                                                              \
  T __tsan_atomic##bits##_fetch_sub(volatile T* a, T v, int order) {                             \
    return change(a, order, [v](T old) { return static_cast<T>(old - v); });                     \
  }                                                                                              \
  T __tsan_atomic##bits##_fetch_or(volatile T* a, T v, int order) {                              \
    return change(a, order, [v](T old) { return static_cast<T>(old | v); });                     \
  }                                                                                              \
  T __tsan_atomic##bits##_fetch_and(volatile T* a, T v, int order) {                             \
    return change(a, order, [v](T old) { return static_cast<T>(old & v); });                     \
  }                                                                                              \
  bool __tsan_atomic##bits##_compare_exchange_strong(volatile T* a, T* c, T v, int order, int) { \
    return swapIf(a, c, v, order);                                                               \
  }                                                                                              \
  bool __tsan_atomic##bits##_compare_exchange_weak(volatile T* a, T* c, T v, int order, int) {   \
    return swapIf(a, c, v, order);                                                               \
  }

UNISONO_ATOMICS(8, std::uint8_t)
UNISONO_ATOMICS(16, std::uint16_t)
UNISONO_ATOMICS(32, std::uint32_t)
UNISONO_ATOMICS(64, std::uint64_t)

void __tsan_atomic_thread_fence(int order) {
  if (Machine* machine = Machine::running(); machine != nullptr && order == __ATOMIC_SEQ_CST) {
    machine->drain();
  }
}
void __tsan_atomic_signal_fence(int /*order*/) {}

#define UNISONO_PLAIN(bytes)                   \
  void __tsan_read##bytes(void*) {}            \
  void __tsan_write##bytes(void*) {}           \
  void __tsan_unaligned_read##bytes(void*) {}  \
  void __tsan_unaligned_write##bytes(void*) {} \
  void __tsan_volatile_read##bytes(void*) {}   \
  void __tsan_volatile_write##bytes(void*) {}

UNISONO_PLAIN(1)
UNISONO_PLAIN(2)
UNISONO_PLAIN(4)
UNISONO_PLAIN(8)
UNISONO_PLAIN(16)

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit(void*) {}
void __tsan_read_range(void*, unsigned long) {}
void __tsan_write_range(void*, unsigned long) {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
// Clang calls these instead of the ones of the C library.
void* __tsan_memcpy(void* to, const void* from, unsigned long bytes) {
  return __builtin_memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, unsigned long bytes) {
  return __builtin_memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, unsigned long bytes) {
  return __builtin_memset(to, value, bytes);
}

// --- what the linker redirects ---

long __real_syscall(long number, ...);
int __real_nanosleep(const timespec* time, timespec* left);
// std::chrono::steady_clock::now(): a class of one number of 64 bits is returned as that number.
std::int64_t __real__ZNSt6chrono3_V212steady_clock3nowEv();

/// Only futex calls of the code under test come here with a machine running.
long __wrap_syscall(long number, ...) {
  va_list rest;
  va_start(rest, number);
  auto* word = va_arg(rest, std::uint32_t*);
  const long action = va_arg(rest, long);
  const long value = va_arg(rest, long);
  const auto* time = va_arg(rest, const timespec*);
  const long fifth = va_arg(rest, long);
  const long sixth = va_arg(rest, long);
  va_end(rest);
  Machine* machine = number == SYS_futex ? machineFor(word) : nullptr;
  if (machine == nullptr) {
    return __real_syscall(number, word, action, value, time, fifth, sixth);
  }
  // The arguments were passed as int.
  if (static_cast<int>(action) == FUTEX_WAIT) {
    machine->sleepOn(word, static_cast<std::uint32_t>(value),
                     Milliseconds(time->tv_sec * 1000 + time->tv_nsec / 1'000'000));
  } else {
    machine->wake(word);
  }
  return 0;
}

int __wrap_nanosleep(const timespec* time, timespec* left) {
  if (Machine* machine = Machine::running()) {
    machine->sleepFor(std::chrono::seconds(time->tv_sec) + std::chrono::nanoseconds(time->tv_nsec));
    return 0;
  }
  return __real_nanosleep(time, left);
}

std::int64_t __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  Machine* machine = Machine::running();
  return machine != nullptr ? machine->now().time_since_epoch().count()
                            : __real__ZNSt6chrono3_V212steady_clock3nowEv();
}

}  // extern "C"

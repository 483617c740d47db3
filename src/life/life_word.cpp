#include "life/life_word.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <linux/futex.h>
#include <system_error>

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "base/thread.hpp"

namespace unisono {
namespace {

void check(int error, const char* what) {
  if (error != 0) {
    throw DistError({.reason = Reason::RESOURCE,
                     .what = str("the life word of a rank cannot be ", what, ": ",
                                 std::system_category().message(error))});
  }
}

/// A thread that ends while it holds a word is to the kernel what a process is that dies.
bool tryOut() {
  static LifeWord word{};  // stays locked: nothing else may ever be in its place
  word.prepare();
  {
    const Thread held("unisono-life", [] { word.hold(); });
  }  // joined
  return word.ownerDied();
}

}  // namespace

void LifeWord::prepare() {
  pthread_mutexattr_t attributes;
  check(::pthread_mutexattr_init(&attributes), "prepared");
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  const int error = ::pthread_mutex_init(&mutex, &attributes);
  ::pthread_mutexattr_destroy(&attributes);
  check(error, "prepared");
}

void LifeWord::hold() {
  // Tried, not waited for: whoever else holds it claims the same rank.
  check(::pthread_mutex_trylock(&mutex), "taken");
}

void LifeWord::letGo() {
  ::pthread_mutex_unlock(&mutex);
}

bool LifeWord::ownerDied() const noexcept {
  static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0, "glibc keeps the futex word first");
  const auto& word = *reinterpret_cast<const std::atomic<std::uint32_t>*>(&mutex);
  // Acquire: what the dead process wrote before it died is seen by who learns of its death.
  return (word.load(std::memory_order_acquire) & FUTEX_OWNER_DIED) != 0;
}

bool lifeWordsWork() {
  static const bool work = tryOut();
  return work;
}

}  // namespace unisono

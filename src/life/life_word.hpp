// LifeWord: a word in shared memory that tells whether the process that holds it has died.
//
// It is a robust mutex that one thread of the owner locks and keeps. When the owner dies, however
// it dies, the kernel marks the word before it tears the process's memory down: peers learn of it
// at once, also when the dead process was many gigabytes large. A socket would tell only after the
// teardown.
//
// Thread safety: prepare() before others can see the word; hold() and letGo() on one and the same
// thread; ownerDied() from anywhere, any time.
#pragma once

#include <pthread.h>

namespace unisono {

/// Lives in shared memory, alone in its cache line.
struct alignas(64) LifeWord {
  pthread_mutex_t mutex;

  void prepare();
  void hold();
  void letGo();

  /// A plain load: never locks, never waits.
  bool ownerDied() const noexcept;
};
static_assert(sizeof(LifeWord) == 64);

/// Whether this system marks such words at all; tried once per process.
bool lifeWordsWork();

}  // namespace unisono

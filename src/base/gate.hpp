// Gate: lets calls into an object, and lets its destructor wait until they have left.
//
//   Bytes get(…) { const Gate::Pass pass(gate_, "HashStore"); … }
//   ~HashStore() { gate_.close(); wakeEverybody(); gate_.waitEmpty(); }
//
// In a forked child an inherited gate lets nobody in and waits for nobody: the threads that
// were inside it, or held its lock, exist only in the parent.
#pragma once

#include <string>
#include <string_view>

#include "unisono/base/error.hpp"

#include "base/fork.hpp"
#include "base/mutex.hpp"

namespace unisono {

class Gate {
 public:
  /// Being inside, for as long as it lives. Throws DistStoreError (SHUTDOWN) once closed,
  /// UsageError (FORKED) in a forked child.
  class Pass {
   public:
    Pass(Gate& gate, std::string_view subject) : gate_(gate) { gate_.enter(subject); }
    ~Pass() { gate_.leave(); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    Gate& gate_;
  };

  /// Lets nobody in from now on.
  void close() noexcept UNISONO_EXCLUDES(mutex_) {
    if (madeIn_.inChild()) {
      return;
    }
    const MutexLock lock(mutex_);
    closed_ = true;
  }

  bool isClosed() const noexcept UNISONO_EXCLUDES(mutex_) {
    if (madeIn_.inChild()) {
      return true;
    }
    const MutexLock lock(mutex_);
    return closed_;
  }

  /// Waits until nobody is inside. The owner has woken whoever sleeps there.
  void waitEmpty() noexcept UNISONO_EXCLUDES(mutex_) {
    if (madeIn_.inChild()) {
      return;
    }
    const MutexLock lock(mutex_);
    while (inside_ > 0) {
      changed_.sleep(mutex_, Milliseconds(50));
    }
  }

  /// The error for those who find the gate closed, also thrown by those woken by the closing.
  [[noreturn]] static void refuse(std::string_view subject) {
    throw DistStoreError({.reason = Reason::SHUTDOWN,
                          .what = std::string(subject) + " is being destroyed by another thread",
                          .hint = "end the threads that use it before it is destroyed"});
  }

 private:
  void enter(std::string_view subject) UNISONO_EXCLUDES(mutex_) {
    madeIn_.check(subject);
    const MutexLock lock(mutex_);
    if (closed_) {
      refuse(subject);
    }
    ++inside_;
  }
  void leave() noexcept UNISONO_EXCLUDES(mutex_) {
    if (madeIn_.inChild()) {
      return;
    }
    const MutexLock lock(mutex_);
    --inside_;
    // Under the lock: the owner may destroy the gate as soon as it sees nobody inside.
    changed_.notifyAll();
  }

  const ForkGuard madeIn_;
  mutable Mutex mutex_;
  CondVar changed_;
  int inside_ UNISONO_GUARDED_BY(mutex_) = 0;
  bool closed_ UNISONO_GUARDED_BY(mutex_) = false;
};

}  // namespace unisono

// Mutex, MutexLock, CondVar, ThreadRole: the standard ones, known to the thread-safety analysis.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/fork.hpp"
#include "base/thread_annotations.hpp"

namespace unisono {

class UNISONO_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() UNISONO_ACQUIRE() { mutex_.lock(); }
  void unlock() UNISONO_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class UNISONO_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) UNISONO_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() UNISONO_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// Wakes threads that wait for a change under a Mutex. Sleeps are bounded: waiting itself is
/// done by waitUntil(), which also watches the deadline.
///
/// A forked child inherits the count of threads that slept here, but not the threads: there,
/// notifying and destroying would wait for them for ever, and do nothing instead.
class CondVar {
 public:
  CondVar() : changed_() {}
  ~CondVar() {
    if (!madeIn_.inChild()) {
      std::destroy_at(&changed_);
    }
  }
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  /// Releases `mutex`, sleeps until notified or `most` has passed, takes it again. May end early.
  void sleep(Mutex& mutex, Milliseconds most) UNISONO_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    changed_.wait_for(lock, std::min(most, kLongestSleep));
    lock.release();
  }
  void notifyAll() noexcept {
    if (!madeIn_.inChild()) {
      changed_.notify_all();
    }
  }

 private:
  const ForkGuard madeIn_;
  union {
    std::condition_variable changed_;  // in a union: destroyed by hand
  };
};

/// "Runs on this thread": a capability without a lock, held by one thread for its whole life.
class UNISONO_CAPABILITY("role") ThreadRole {
 public:
  /// Called once by the thread that takes the role.
  void adopt() noexcept { owner_ = std::this_thread::get_id(); }

  /// In debug builds ends the process when another thread calls; tells the analysis otherwise.
  void assertHeld() const noexcept UNISONO_ASSERT_HELD(this) {
    UNISONO_DCHECK(owner_ == std::this_thread::get_id());
  }

 private:
  std::thread::id owner_;
};

}  // namespace unisono

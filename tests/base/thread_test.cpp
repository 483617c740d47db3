#include "base/thread.hpp"

#include <atomic>
#include <csignal>
#include <gmock/gmock.h>
#include <optional>
#include <pthread.h>

#include "base/mutex.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::runInChild;

/// A thread that sleeps on a condition variable until told to end.
class Sleeper {
 public:
  Sleeper() : thread_(std::make_unique<Thread>("sleeper", [this] { run(); })) {
    for (bool asleep = false; !asleep; std::this_thread::yield()) {
      const MutexLock lock(mutex_);
      asleep = entered_;  // seen under the lock: the thread is inside its sleep
    }
  }
  ~Sleeper() {
    {
      const MutexLock lock(mutex_);
      ended_ = true;
      changed_->notifyAll();
    }
    thread_.reset();
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  /// Taken in a child, where the thread does not exist.
  std::unique_ptr<Thread>& thread() { return thread_; }
  std::unique_ptr<CondVar>& changed() { return changed_; }

 private:
  void run() {
    const MutexLock lock(mutex_);
    entered_ = true;
    while (!ended_) {
      changed_->sleep(mutex_, std::chrono::minutes(10));
    }
  }

  Mutex mutex_;
  std::unique_ptr<CondVar> changed_ = std::make_unique<CondVar>();
  bool entered_ UNISONO_GUARDED_BY(mutex_) = false;
  bool ended_ UNISONO_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Thread> thread_;  // last: joins before the rest is destroyed
};

sigset_t maskOfThisThread() {
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return mask;
}

TEST(ThreadTest, RunsWhatItIsGivenAndIsJoinedByItsDestructor) {
  bool ran = false;
  {
    const Thread thread("runs", [&] { ran = true; });
  }
  EXPECT_TRUE(ran);
}

TEST(ThreadTest, DoesNothingWhenEmptyOrJoinedAlready) {
  Thread none;
  none.join();

  Thread thread("joined", [] {});
  thread.join();
  thread.join();
}

TEST(ThreadTest, CarriesItsNameCutToWhatTheKernelKeeps) {
  std::array<char, 32> name{};
  Thread("a-name-that-is-too-long", [&] {
    ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  }).join();

  EXPECT_STREQ(name.data(), "a-name-that-is-");
}

TEST(ThreadTest, IsJoinedWhenReplaced) {
  std::atomic<bool> ran = false;
  Thread thread("first", [&] { ran = true; });

  thread = Thread("second", [] {});

  EXPECT_TRUE(ran);
}

TEST(ThreadTest, KeepsRunningWhenMoved) {
  std::atomic<bool> ran = false;
  Thread first("moved", [&] { ran = true; });
  Thread second = std::move(first);

  first.join();  // NOLINT: nothing is left to join
  second.join();

  EXPECT_TRUE(ran);
}

TEST(ThreadTest, BlocksTheSignalsOfTheProcess) {
  sigset_t mask;
  sigemptyset(&mask);
  Thread("masked", [&] { mask = maskOfThisThread(); }).join();

  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPROF, SIGCHLD, SIGUSR1, SIGUSR2, SIGPIPE,
                           SIGALRM, SIGWINCH, SIGRTMIN, SIGRTMAX}) {
    EXPECT_TRUE(sigismember(&mask, signal)) << signal;
  }
}

TEST(ThreadTest, LetsItsOwnFaultsReachTheHandlersForCrashes) {
  sigset_t mask;
  sigfillset(&mask);
  Thread("faults", [&] { mask = maskOfThisThread(); }).join();

  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
    EXPECT_FALSE(sigismember(&mask, signal)) << signal;
  }
}

TEST(ThreadTest, LeavesTheMaskOfTheStarterAsItWas) {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGUSR2);
  sigset_t before;
  ::pthread_sigmask(SIG_SETMASK, &wanted, &before);

  Thread("starter", [] {}).join();
  const sigset_t after = maskOfThisThread();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);

  for (int signal = 1; signal < NSIG; ++signal) {
    EXPECT_EQ(sigismember(&after, signal), sigismember(&wanted, signal)) << signal;
  }
}

TEST(ThreadTest, IsForgottenInAForkedChild) {
  Sleeper sleeper;

  EXPECT_EQ(runInChild([&] {
              sleeper.thread().reset();
              return true;
            }),
            0);
  EXPECT_EQ(runInChild([&] {
              *sleeper.thread() = Thread();
              sleeper.thread()->join();
              return true;
            }),
            0);
}

TEST(CondVarTest, CanBeDestroyedInAForkedChildWhoseParentSleepsOnIt) {
  Sleeper sleeper;

  EXPECT_EQ(runInChild([&] {
              for (int i = 0; i < 8; ++i) {
                sleeper.changed()->notifyAll();
              }
              sleeper.changed().reset();
              return true;
            }),
            0);
}

TEST(CondVarTest, SleepsBoundedHoweverLongIsAsked) {
  Mutex mutex;
  CondVar changed;
  bool entered = false;
  bool notified = false;
  const Thread waker("waker", [&] {
    for (bool done = false; !done; std::this_thread::yield()) {
      const MutexLock lock(mutex);
      notified = entered;
      done = entered;
      changed.notifyAll();
    }
  });

  const MutexLock lock(mutex);
  entered = true;
  // More than once, because a sleep may end for no reason.
  for (int i = 0; i < 3 && !notified; ++i) {
    changed.sleep(mutex, Milliseconds::max());
  }
  EXPECT_TRUE(notified);
}

#ifndef NDEBUG
TEST(ThreadRoleDeathTest, EndsTheProcessWhenAnotherThreadCalls) {
  ThreadRole role;
  Thread("owner", [&] { role.adopt(); }).join();

  EXPECT_DEATH(role.assertHeld(), "broken assumption");
}
#endif

TEST(ThreadRoleTest, IsHeldByWhoAdoptedIt) {
  ThreadRole role;
  role.adopt();

  role.assertHeld();
}

}  // namespace
}  // namespace unisono

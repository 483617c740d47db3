// Reactor: watches descriptors and runs their handlers on one thread, the loop's.
//
//   auto reactor = makeUvReactor();
//   reactor->watch(fd, {.read = true}, session);   // before run(): still the maker's thread
//   Thread loop("unisono-store", [&] { reactor->run(); });
//   …
//   reactor->stop();
//
// Thread safety: post() and stop() from any thread. All else needs `role`, which the thread that
// made the reactor holds until run(), and the thread in run() from then on.
//
// Handlers are noexcept; posted functions and ticks that throw are logged. Watching is
// level-triggered: a descriptor that stays ready is reported again.
//
// In a forked child a reactor of the parent is inert: its descriptors are closed, post() and
// stop() do nothing, and destroying it frees nothing that the loop thread may have been using.
#pragma once

#include <memory>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "base/status.hpp"
#include "base/unique_function.hpp"

namespace unisono {

/// What to watch for. With neither, the descriptor stays known but silent.
struct Interest {
  bool read = false;
  bool write = false;

  friend bool operator==(Interest, Interest) noexcept = default;
};

/// Whom a reactor calls about a descriptor.
class Watcher {
 public:
  virtual ~Watcher() = default;

  /// Some of what was asked for is there. An error or hang-up is reported as all that was asked
  /// for: reading or writing then tells what it is.
  virtual void onReady(bool readable, bool writable) noexcept = 0;
};

class Reactor {
 public:
  Reactor() noexcept { role.adopt(); }
  virtual ~Reactor() = default;
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// Held by the loop's thread; before run() by the maker's.
  ThreadRole role;

  /// Calls `watcher` when `fd` is ready, until unwatch(fd). Neither may go away before. Fails
  /// when `fd` is watched already or cannot be watched.
  virtual Status watch(int fd, Interest interest, Watcher& watcher) UNISONO_REQUIRES(role) = 0;

  /// Watches `fd`, which is watched, for something else. Free when nothing changes.
  virtual void change(int fd, Interest interest) UNISONO_REQUIRES(role) = 0;

  /// Forgets `fd`; its watcher is not called any more, even if it was ready in this turn, and
  /// both may be destroyed at once. To be called before `fd` is closed, also by handlers, also
  /// for other descriptors than their own. Does nothing when `fd` is not watched.
  virtual void unwatch(int fd) noexcept UNISONO_REQUIRES(role) = 0;

  /// Runs `tick` every `period` from now on, instead of any tick before.
  virtual void startTicks(Milliseconds period, UniqueFunction<void()> tick)
      UNISONO_REQUIRES(role) = 0;

  /// Runs `task` at the end of every turn in which something was ready or posted, after all of
  /// that, instead of any before: what many handlers cause can be done once.
  virtual void atTurnEnd(UniqueFunction<void()> task) UNISONO_REQUIRES(role) = 0;

  /// Runs `task` on the loop, after those posted before. What is posted after stop() may be
  /// destroyed without having run.
  virtual void post(UniqueFunction<void()> task) = 0;

  /// Makes run() return at the end of its turn, after what was posted before.
  virtual void stop() noexcept = 0;

  /// Serves until stop(), which may have come before. To be called once.
  virtual void run() = 0;
};

/// Over libuv: cost of a turn independent of how many descriptors are watched.
std::unique_ptr<Reactor> makeUvReactor();

/// Over plain poll(2): simple, cost of a turn grows with the descriptors watched.
std::unique_ptr<Reactor> makePollReactor();

}  // namespace unisono

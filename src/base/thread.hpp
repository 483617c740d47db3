// Thread: a named thread that blocks all signals but its own faults, and is joined by its
// destructor.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/fork.hpp"

namespace unisono {

class Thread {
 public:
  Thread() = default;
  /// Starts `run` on a new thread called `name` (at most 15 characters are kept). Throws
  /// DistError (RESOURCE) when the system gives no thread.
  Thread(const std::string& name, std::function<void()> run);
  ~Thread() { join(); }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  Thread(Thread&&) = default;
  Thread& operator=(Thread&& other) noexcept;

  /// Waits for the end of the thread. In a forked child the thread does not exist: forgets it.
  void join() noexcept;

  /// Whether it is the one that asks: it cannot be joined from there.
  bool isCurrent() const noexcept {
    return thread_ && thread_->get_id() == std::this_thread::get_id();
  }

  /// Lets the thread run on by itself: it must own everything it uses.
  void detach() noexcept;

 private:
  std::unique_ptr<std::thread> thread_;
  ForkGuard madeIn_;
};

}  // namespace unisono

// BlockedCall: a call that waits, on a thread of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <utility>

#include "base/wait.hpp"
#include "net/net_support.hpp"

namespace unisono::test {

/// Runs `call` on a new thread; the constructor returns when that thread sleeps in the kernel, or
/// has finished.
template <typename Call>
class BlockedCall {
 public:
  using Value = std::invoke_result_t<Call>;

  explicit BlockedCall(Call call) {
    std::packaged_task<Value()> task(std::move(call));
    outcome_ = task.get_future();
    thread_ = std::thread([this, task = std::move(task)]() mutable {
      tid_.store(::gettid());
      task();
    });
    // Twice, a moment apart: a thread may also sleep for a moment on its way to the wait.
    static_cast<void>(eventually([this] { return finished() || sleepsDeeply(); }));
  }
  ~BlockedCall() {
    if (thread_.joinable()) {
      awaitEnd();
      thread_.join();
    }
  }
  BlockedCall(const BlockedCall&) = delete;
  BlockedCall& operator=(const BlockedCall&) = delete;

  bool finished() const {
    return outcome_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  /// Whether it is still waiting after a moment in which it could have ended.
  bool staysBlocked(Milliseconds moment = Milliseconds(60)) const {
    return outcome_.wait_for(moment) != std::future_status::ready;
  }

  /// What the call returned, or throws what it threw.
  Value result() {
    awaitEnd();
    thread_.join();
    return outcome_.get();
  }

  int tid() const { return tid_.load(); }
  pthread_t handle() { return thread_.native_handle(); }

 private:
  bool sleepsDeeply() const {
    const int tid = tid_.load();
    if (tid == 0 || !isAsleep(tid)) {
      return false;
    }
    return outcome_.wait_for(Milliseconds(3)) != std::future_status::ready && isAsleep(tid);
  }

  /// A thread that never returns cannot be ended: the whole test program goes.
  void awaitEnd() const {
    if (outcome_.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
      static_cast<void>(std::fputs("a call that should have ended is still waiting\n", stderr));
      std::abort();
    }
  }

  std::atomic<int> tid_{0};
  std::future<Value> outcome_;
  std::thread thread_;
};

}  // namespace unisono::test

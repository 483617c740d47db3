// Works whose end a test decides.
#pragma once

#include <atomic>
#include <functional>

#include "unisono/base/error.hpp"
#include "unisono/work/work.hpp"

namespace unisono::test {

/// Ends when the test says so.
class OpenWork : public Work {
 public:
  using Work::cancelOneWait;
  using Work::finish;
  using Work::finishDeferred;
  using Work::markStarted;
  using Work::setSourceRank;
  using Work::wakeWaiters;
  using Work::Work;

  void abort() override { cancelOneWait(); }
};

/// Runs `driven` on the thread of whoever waits.
class DrivenWork : public OpenWork {
 public:
  explicit DrivenWork(std::function<void(DrivenWork&)> driven) : driven_(std::move(driven)) {}
  std::atomic<int> helped{0};

 protected:
  void help(TimePoint) override {
    ++helped;
    driven_(*this);
  }

 private:
  const std::function<void(DrivenWork&)> driven_;
};

inline std::exception_ptr peerDied(int rank = 3) {
  return std::make_exception_ptr(DistBackendError(
      {.reason = Reason::PEER_DEAD, .what = "rank 3 is gone", .culprits = {rank}}));
}

}  // namespace unisono::test

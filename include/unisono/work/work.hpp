// Work: an operation under way.
//
//   WorkPtr work = group.allreduce(gradients);
//   … compute something else …
//   work->wait();                      // throws what the operation failed with
//
// A Work may be dropped without waiting: the operation goes on, and its tensors stay alive until
// it has ended.
//
// Thread safety: every public method may be called from any thread, and several threads may wait.
//
// For backends: derive from Work, or use it as it is, and end it by finish() exactly once, after
// the outputs are written. A backend that needs a thread to make progress overrides help(), which
// those who wait call before they sleep.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "unisono/base/api.hpp"
#include "unisono/work/future.hpp"
#include "unisono/work/op_type.hpp"
#include "unisono/work/options.hpp"
#include "unisono/work/tensor_list.hpp"
#include "unisono/work/work_info.hpp"

namespace unisono {

class Work;
using WorkPtr = std::shared_ptr<Work>;

class UNISONO_API Work : public std::enable_shared_from_this<Work> {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Callbacks = std::vector<std::function<void()>>;

  explicit Work(OpType type = OpType::UNKNOWN, std::uint64_t seq = 0);
  virtual ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  /// Whether it has ended, well or not.
  virtual bool isCompleted();
  /// False once it has failed; true while it is still running, as in c10d.
  bool isSuccess() const noexcept;
  /// What it failed with; null otherwise.
  std::exception_ptr exception() const;

  /// Waits until it has ended and throws what it failed with. True when it succeeded; false when
  /// abort() ended this wait, which leaves the operation as it is. Throws DistTimeoutError
  /// ("Operation timed out!") when `timeout` passes first: that fails the wait, not the operation.
  /// kNoTimeout: without limit.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout);

  /// Waits until it has ended, but not beyond `until`; whether it has. Throws nothing of its own:
  /// for those who wrap a work.
  bool waitUntilDone(TimePoint until);

  /// Makes later work on the current stream of a device wait for this; nothing on the CPU.
  virtual void synchronize();

  /// The outputs of one that has ended; UsageError before.
  TensorList result() const;
  /// recv, recvAnysource: the rank it came from, -1 before it has ended. UsageError for others.
  int sourceRank() const;
  /// How long it ran, from its start to its end; NotSupportedError when its backend does not
  /// measure that.
  std::chrono::duration<float, std::milli> duration() const;
  /// The number its group gave it, from 1; 0 when it was given none.
  std::uint64_t sequenceNumber() const noexcept { return seq_; }
  OpType opType() const noexcept { return type_; }
  /// What is known of it, for completion hooks.
  WorkInfo info() const;

  /// The same end as a Future: its value are the outputs.
  Future getFuture();
  /// What `next` makes of that Future, once it has ended; see Future::then().
  Future then(std::function<TensorList(const Future&)> next);
  /// Calls `callback` when it has ended, on the thread that ends it; at once when it has. What it
  /// throws is logged and dropped.
  void addCallback(std::function<void()> callback);

  /// Ends one wait that is under way, or the next one, with false; the operation goes on. Only
  /// some works can: NotSupportedError for others.
  virtual void abort();

  /// Runs callbacks that finishDeferred() returned.
  static void run(Callbacks callbacks) noexcept;

 protected:
  /// Makes progress on the caller's thread until this work has ended, `until` has passed, or
  /// there is nothing to do for this thread. Called by those who wait before they sleep, without
  /// any lock, and again after wakeWaiters().
  virtual void help(TimePoint until);

  /// Ends the work, wakes who waits, runs the callbacks. The first end counts; false for later
  /// ones.
  bool finish(std::exception_ptr error = nullptr, TensorList outputs = {});
  /// The same, but leaves the callbacks to the caller: for a thread that others need for progress
  /// as long as it has not put something down.
  [[nodiscard]] Callbacks finishDeferred(std::exception_ptr error = nullptr,
                                         TensorList outputs = {});
  /// Lets those who wait call help() again: there is something to do for one of them.
  void wakeWaiters();
  /// Ends one wait with false; what abort() of a send or recv does.
  void cancelOneWait();
  /// From here duration() counts. Before finish(), by the thread that runs the operation.
  void markStarted();
  void setSourceRank(int rank) noexcept { sourceRank_.store(rank, std::memory_order_relaxed); }

 private:
  bool isDone() const noexcept;
  bool waitSlowly(std::chrono::milliseconds timeout);

  const OpType type_;
  const std::uint64_t seq_;
  std::atomic<int> sourceRank_{-1};
  const std::shared_ptr<detail::Completion> completion_;
};

/// The work of every operation that succeeded before its call returned: one for all, which knows
/// nothing of the operation. Costs neither memory nor a count of references but on the first call,
/// which a backend makes before there is an operation whose success a lack of memory would hide.
UNISONO_API WorkPtr finishedWork();

/// The same for a message that was received from `source`: one for each rank.
UNISONO_API WorkPtr receivedWork(int source);

/// A work that has already failed with `error`.
UNISONO_API WorkPtr failedWork(OpType type, std::uint64_t seq, std::exception_ptr error);

}  // namespace unisono

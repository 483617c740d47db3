// Completion: what a Work and its Futures share: whether it has ended, and with what.
//
// It ends once. Until then threads wait for it, and callbacks gather; both are let go when it ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "unisono/work/tensor_list.hpp"

#include "base/clock.hpp"
#include "base/fork.hpp"
#include "base/mutex.hpp"

namespace unisono::detail {

using Callbacks = std::vector<std::function<void()>>;

/// Runs each; what one throws is logged and dropped.
void runCallbacks(Callbacks callbacks) noexcept;

class Completion {
 public:
  /// Makes progress on the caller's thread, until the given moment at most.
  using Help = std::function<void(TimePoint until)>;
  using Subject = std::function<std::string()>;
  enum class Outcome : std::uint8_t { DONE, EXPIRED, CANCELLED };

  bool isDone() const noexcept { return state() != State::PENDING; }
  bool hasFailed() const noexcept { return state() == State::FAILED; }

  /// Ends it, unless it has ended; returns whether this call did. `*left` gets the callbacks,
  /// which the caller runs when it holds no lock.
  bool complete(std::exception_ptr error, TensorList value, Callbacks* left)
      UNISONO_EXCLUDES(mutex_);

  std::exception_ptr error() const UNISONO_EXCLUDES(mutex_);
  /// REQUIRES: isDone(), after which it does not change.
  const TensorList& value() const noexcept UNISONO_NO_ANALYSIS { return value_; }

  /// Runs `callback` at the end; now when it has ended.
  void onDone(std::function<void()> callback) UNISONO_EXCLUDES(mutex_);

  /// Sleeps until the end, and lets `help` (may be empty) run before every sleep.
  Outcome await(Deadline deadline, const Subject& subject, const Help& help)
      UNISONO_EXCLUDES(mutex_);

  /// Makes waiting threads call their help again.
  void wake() UNISONO_EXCLUDES(mutex_);
  /// Ends one await(), under way or the next, with CANCELLED.
  void cancelOne() UNISONO_EXCLUDES(mutex_);

  /// How those may help who wait for a Future.
  void setHelp(Help help) UNISONO_EXCLUDES(mutex_);
  Help help() const UNISONO_EXCLUDES(mutex_);

  /// When it ran. REQUIRES: setStarted() before complete(), times read after isDone().
  void setStarted(TimePoint when) UNISONO_EXCLUDES(mutex_);
  std::pair<TimePoint, TimePoint> times() const UNISONO_EXCLUDES(mutex_);

 private:
  class Sleeper;
  enum class State : std::uint8_t { PENDING, SUCCEEDED, FAILED };
  // Acquire: whoever sees the end also sees the outputs that were written before it.
  State state() const noexcept { return state_.load(std::memory_order_acquire); }
  bool takeCancel() UNISONO_REQUIRES(mutex_);

  const ForkGuard madeIn_;
  std::atomic<State> state_{State::PENDING};  // changed once, under mutex_
  mutable Mutex mutex_;
  CondVar changed_;
  std::uint64_t wakes_ UNISONO_GUARDED_BY(mutex_) = 0;
  int cancels_ UNISONO_GUARDED_BY(mutex_) = 0;
  std::exception_ptr error_ UNISONO_GUARDED_BY(mutex_);
  TensorList value_ UNISONO_GUARDED_BY(mutex_);
  Callbacks callbacks_ UNISONO_GUARDED_BY(mutex_);
  Help help_ UNISONO_GUARDED_BY(mutex_);
  TimePoint started_ UNISONO_GUARDED_BY(mutex_) = {};
  TimePoint finished_ UNISONO_GUARDED_BY(mutex_) = {};
};

}  // namespace unisono::detail

// Future: the tensors that an operation will give, or the error it will end with.
//
//   Future halved = work->then([](const Future& done) {
//     halve(done.value());
//     return done.value();
//   });
//
// A Future is a handle: copies are about the same result. Callbacks run on the thread that
// completes the future, or at once on the caller's when it is complete already; never under a lock
// of unisono, so that they may start operations and wait for them.
//
// Thread safety: every method may be called from any thread.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>

#include "unisono/base/api.hpp"
#include "unisono/work/options.hpp"
#include "unisono/work/tensor_list.hpp"

namespace unisono {

namespace detail {
class Completion;
}

class UNISONO_API Future {
 public:
  /// One that somebody will complete by setValue() or setError().
  Future();
  static Future ready(TensorList value);
  static Future failed(std::exception_ptr error);
  ~Future();
  Future(const Future&);
  Future& operator=(const Future&);
  Future(Future&&) noexcept;
  Future& operator=(Future&&) noexcept;

  /// Complete it; the first to do so wins, later calls do nothing.
  void setValue(TensorList value);
  void setError(std::exception_ptr error);

  bool done() const noexcept;
  /// Null unless it has ended with an error.
  std::exception_ptr exception() const;

  /// Waits until it is done, driving the operation meanwhile where its backend allows that; throws
  /// the error it ended with. Throws DistTimeoutError when `timeout` passes first, which changes
  /// nothing about the operation. kNoTimeout: without limit.
  void wait(std::chrono::milliseconds timeout = kNoTimeout) const;

  /// The result of one that is done: throws its error if it failed, UsageError if it is not done.
  const TensorList& value() const;

  /// Calls `callback` with this future once it is done. What the callback throws is logged and
  /// dropped.
  void addCallback(std::function<void(const Future&)> callback) const;

  /// A future that has what `next` returns, or throws, once this one is done. `next` is called
  /// also when this one failed; value() then throws the error on.
  Future then(std::function<TensorList(const Future&)> next) const;

 private:
  friend class Work;
  explicit Future(std::shared_ptr<detail::Completion> state);
  std::shared_ptr<detail::Completion> state_;
};

}  // namespace unisono

// What Python holds of a training: a model, a Reducer, a Logger, each until its group is left.
#pragma once

#include <memory>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <utility>
#include <vector>

#include "unisono/base/error.hpp"
#include "unisono/ddp/data_parallel.hpp"
#include "unisono/ddp/join.hpp"
#include "unisono/ddp/logger.hpp"

#include "bindings/bind.hpp"
#include "bindings/gil.hpp"

namespace unisono::python {

/// What trains by a group, until that is left. As with groups, letting go may need the interpreter.
template <typename T>
class Leavable {
 public:
  explicit Leavable(std::shared_ptr<T> held) : held_(std::move(held)) {}
  ~Leavable() { leave(); }
  Leavable(const Leavable&) = delete;
  Leavable& operator=(const Leavable&) = delete;

  /// Throws when it was let go of.
  std::shared_ptr<T> get() const {
    if (!held_) {
      throw UsageError({.reason = Reason::SHUTDOWN,
                        .what = "the group of this training has been left",
                        .hint = "make a new group, and train with that one"});
    }
    return held_;
  }

  /// Runs `action` with it, without the lock. It stays also when another thread leaves meanwhile.
  template <typename Action>
  auto use(Action&& action) const {
    std::shared_ptr<T> kept = get();
    return withoutLock([&] {
      const std::shared_ptr<T> used = std::move(kept);
      return action(*used);
    });
  }

  void leave() noexcept {
    if (std::shared_ptr<T> last = std::exchange(held_, nullptr)) {
      withoutLock([&] { last.reset(); });
    }
  }

 private:
  std::shared_ptr<T> held_;
};

/// A Reducer for gradients that are arrays.
struct HostedReducer {
  GradBuffers gradients;
  Reducer reducer;

  HostedReducer(Group group, const std::vector<Param>& params, BucketIndices buckets,
                ReducerOptions options)
      : gradients(params.size()),
        reducer(std::move(group), params, std::move(buckets), gradients, std::move(options)) {}
};

/// A Logger, and the Reducer that it is of.
struct HostedLogger {
  std::shared_ptr<HostedReducer> of;
  Logger logger;

  explicit HostedLogger(std::shared_ptr<HostedReducer> reducer)
      : of(std::move(reducer)), logger(of->reducer) {}
};

/// Steps of ranks that may have different numbers of inputs, and the model that makes them.
struct HostedJoin {
  std::shared_ptr<DataParallel> of;
  Join join;

  HostedJoin(std::shared_ptr<DataParallel> model, JoinOptions options)
      : of(std::move(model)), join(of->reducer(), options) {}
};

using Training = Leavable<DataParallel>;
using Joining = Leavable<HostedJoin>;
using Reducing = Leavable<HostedReducer>;
using Logging = Leavable<HostedLogger>;

/// Texts, and numbers, by their names.
inline nb::tuple asTuple(DDPLoggingData data) {
  return nb::make_tuple(std::move(data.strsMap), std::move(data.intsMap));
}

}  // namespace unisono::python

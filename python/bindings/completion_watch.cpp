#include "bindings/completion_watch.hpp"

#include <chrono>
#include <cstdint>
#include <set>

#include "base/mutex.hpp"
#include "base/wait.hpp"
#include "bindings/gil.hpp"

namespace unisono::python {
namespace {

std::int64_t nanoseconds(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

void tell(PyObject* hook, const WorkInfo& info) {
  const GuestLock lock;
  if (!lock) {
    return;  // too late: the interpreter is closing
  }
  PyObject* const result = PyObject_CallFunction(
      hook, "iKLLd", static_cast<int>(info.opType), static_cast<unsigned long long>(info.seq),
      static_cast<long long>(nanoseconds(info.timeStarted)),
      static_cast<long long>(nanoseconds(info.timeFinished)),
      static_cast<double>(info.activeDuration.count()));
  if (result == nullptr) {
    PyErr_WriteUnraisable(hook);
  }
  Py_XDECREF(result);
}

}  // namespace

/// The numbers of operations that were begun, and not told of yet.
struct CompletionWatch::Pending {
  Mutex mutex;
  std::set<std::uint64_t> numbers UNISONO_GUARDED_BY(mutex);

  void begin(std::uint64_t number) UNISONO_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    numbers.insert(number);
  }
  void end(std::uint64_t number) UNISONO_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    numbers.erase(number);  // one that failed before it began is not among them
  }
  bool empty() UNISONO_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    return numbers.empty();
  }
};

CompletionWatch::CompletionWatch(const Group& group, const nb::callable& hook)
    : pending_(std::make_shared<Pending>()) {
  const std::shared_ptr<PyObject> kept(nb::borrow(hook).release().ptr(), [](PyObject* object) {
    if (const GuestLock lock; lock) {
      Py_DECREF(object);
    }
  });
  ProcessGroup& observed = group.processGroup();
  started_ = observed.addPostHook(
      [pending = pending_](const StartedCall& call) { pending->begin(call.seq); });
  ended_ = observed.addCompletionHook([pending = pending_, kept](const WorkInfo& info) {
    tell(kept.get(), info);
    pending->end(info.seq);
  });
}

void CompletionWatch::wait() const {
  // Without a deadline of its own: operations have theirs, and end.
  const WaitContext context{.deadline = Deadline::never(), .subject = {}};
  TimerWaitable moment(Milliseconds(1));
  static_cast<void>(waitUntil([this] { return pending_->empty(); }, context, moment));
}

}  // namespace unisono::python

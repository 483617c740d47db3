#include "unisono/work/work.hpp"

#include "base/check.hpp"
#include "work/completion.hpp"
#include "work/wait_timeout.hpp"

namespace unisono {
namespace {

using Outcome = detail::Completion::Outcome;

[[noreturn]] void notSupported(OpType type, std::string what) {
  throw NotSupportedError(
      {.reason = Reason::USAGE, .what = std::move(what), .op = std::string(opName(type))});
}

std::optional<std::int64_t> known(std::uint64_t seq) {
  return seq == 0 ? std::nullopt : std::optional(static_cast<std::int64_t>(seq));
}

/// Reaches finish(), which is for backends.
class EndedWork final : public Work {
 public:
  EndedWork(OpType type, std::uint64_t seq, std::exception_ptr error, int source = -1)
      : Work(type, seq) {
    setSourceRank(source);
    finish(std::move(error));
  }
};

}  // namespace

Work::Work(OpType type, std::uint64_t seq)
    : type_(type), seq_(seq), completion_(std::make_shared<detail::Completion>()) {}
Work::~Work() = default;

bool Work::isDone() const noexcept {
  return completion_->isDone();
}

bool Work::isCompleted() {
  return isDone();
}

bool Work::isSuccess() const noexcept {
  return !completion_->hasFailed();
}

std::exception_ptr Work::exception() const {
  return completion_->error();
}

bool Work::wait(std::chrono::milliseconds timeout) {
  if (!isDone() && !waitSlowly(timeout)) {
    return false;
  }
  if (completion_->hasFailed()) {
    std::rethrow_exception(completion_->error());
  }
  synchronize();
  return true;
}

bool Work::waitSlowly(std::chrono::milliseconds timeout) {
  const detail::WaitTimeout limit(timeout);
  const auto subject = [this] {
    return seq_ == 0 ? str("the end of ", opName(type_))
                     : str("the end of ", opName(type_), " number ", seq_);
  };
  const Outcome outcome =
      completion_->await(limit.deadline(), subject, [this](TimePoint until) { help(until); });
  if (outcome == Outcome::EXPIRED) {
    limit.fail(opName(type_), known(seq_));
  }
  return outcome == Outcome::DONE;
}

bool Work::waitUntilDone(TimePoint until) {
  if (!isDone()) {
    static_cast<void>(
        completion_->await(Deadline::at(until), {}, [this](TimePoint moment) { help(moment); }));
  }
  return isDone();
}

void Work::synchronize() {}

void Work::help(TimePoint) {}

TensorList Work::result() const {
  UNISONO_CHECK(isDone(), "Work needs to be completed before calling result()");
  return completion_->value();
}

int Work::sourceRank() const {
  UNISONO_CHECK(type_ == OpType::RECV || type_ == OpType::RECVANYSOURCE,
                "sourceRank() may only be called on work objects that correspond to a recv or "
                "recv-from-any call.");
  return sourceRank_.load(std::memory_order_relaxed);
}

std::chrono::duration<float, std::milli> Work::duration() const {
  UNISONO_CHECK(isDone(), "the duration of an operation is known when it has ended");
  const auto [started, finished] = completion_->times();
  if (started == TimePoint{}) {
    notSupported(type_, "This Backend doesn't support getDuration.");
  }
  return finished - started;
}

WorkInfo Work::info() const {
  const auto [started, finished] = completion_->times();
  WorkInfo info{.opType = type_, .seq = seq_, .timeStarted = started, .timeFinished = finished};
  info.activeDuration = finished - started;
  if (isDone()) {
    info.result = WorkResult::SUCCESS;
  }
  if (const std::exception_ptr error = exception()) {
    info.result = WorkResult::COMM_ERROR;
    try {
      std::rethrow_exception(error);
    } catch (const DistTimeoutError&) {
      info.result = WorkResult::TIMEOUT;
    } catch (...) {  // NOLINT: any other error is what was said above
    }
  }
  return info;
}

Future Work::getFuture() {
  if (!isDone()) {
    // Weak: the future is part of this work, and must not keep it.
    completion_->setHelp([weak = weak_from_this()](TimePoint until) {
      if (const WorkPtr work = weak.lock()) {
        work->help(until);
      }
    });
  }
  return Future(completion_);
}

Future Work::then(std::function<TensorList(const Future&)> next) {
  return getFuture().then(std::move(next));
}

void Work::addCallback(std::function<void()> callback) {
  completion_->onDone(std::move(callback));
}

void Work::abort() {
  notSupported(type_, "Work::abort not implemented.");
}

void Work::run(Callbacks callbacks) noexcept {
  detail::runCallbacks(std::move(callbacks));
}

bool Work::finish(std::exception_ptr error, TensorList outputs) {
  // Kept here: whoever waits may drop the work as soon as it sees the end.
  const std::shared_ptr<detail::Completion> completion = completion_;
  Callbacks callbacks;
  const bool first = completion->complete(std::move(error), std::move(outputs), &callbacks);
  run(std::move(callbacks));
  return first;
}

Work::Callbacks Work::finishDeferred(std::exception_ptr error, TensorList outputs) {
  const std::shared_ptr<detail::Completion> completion = completion_;
  Callbacks callbacks;
  completion->complete(std::move(error), std::move(outputs), &callbacks);
  return callbacks;
}

void Work::wakeWaiters() {
  completion_->wake();
}

void Work::cancelOneWait() {
  completion_->cancelOne();
}

void Work::markStarted() {
  completion_->setStarted(systemClock().now());
}

WorkPtr finishedWork() {
  // Never destroyed: works may be waited for while the process ends.
  static Work* const work = new EndedWork(OpType::UNKNOWN, 0, nullptr);
  // Shares ownership with nobody: copies of such a pointer count nothing.
  return {WorkPtr(), work};
}

WorkPtr receivedWork(int source) {
  constexpr std::size_t kKept = 1024;
  static std::atomic<Work*> kept[kKept];
  const auto index = static_cast<std::size_t>(source);
  if (index >= kKept) {
    return std::make_shared<EndedWork>(OpType::RECV, 0, nullptr, source);
  }
  // Acquire, release: what another thread has made.
  Work* work = kept[index].load(std::memory_order_acquire);
  if (work == nullptr) {
    auto made = std::make_unique<EndedWork>(OpType::RECV, 0, nullptr, source);
    if (kept[index].compare_exchange_strong(work, made.get(), std::memory_order_acq_rel)) {
      work = made.release();  // never destroyed, as above
    }
  }
  return {WorkPtr(), work};
}

WorkPtr failedWork(OpType type, std::uint64_t seq, std::exception_ptr error) {
  return std::make_shared<EndedWork>(type, seq, std::move(error));
}

}  // namespace unisono

#include "backend/native/native_backend.hpp"

#include <utility>

#include "backend/native/batch.hpp"
#include "backend/native/lane_call.hpp"
#include "backend/native/mail_work.hpp"
#include "backend/native/monitored_barrier.hpp"
#include "base/check.hpp"
#include "base/str.hpp"

namespace unisono {
namespace {

constexpr std::size_t kMostQueued = 65'536;
// For an operation to notice that its group has failed; it takes microseconds.
constexpr Milliseconds kTimeToNotice{1000};

constexpr OpSet kOps = {OpType::BROADCAST,
                        OpType::ALLREDUCE,
                        OpType::ALLREDUCE_COALESCED,
                        OpType::ALLREDUCE_SPARSE,
                        OpType::REDUCE,
                        OpType::ALLGATHER,
                        OpType::ALLGATHER_BASE,
                        OpType::ALLGATHER_COALESCED,
                        OpType::ALLGATHER_INTO_TENSOR_COALESCED,
                        OpType::GATHER,
                        OpType::SCATTER,
                        OpType::REDUCE_SCATTER,
                        OpType::REDUCE_SCATTER_BASE,
                        OpType::REDUCE_SCATTER_TENSOR_COALESCED,
                        OpType::ALLTOALL,
                        OpType::ALLTOALL_BASE,
                        OpType::SEND,
                        OpType::RECV,
                        OpType::RECVANYSOURCE,
                        OpType::BARRIER};

}  // namespace

/// An operation that waits in the lane, or runs there.
class NativeBackend::NativeWork final : public Work, public LaneItem {
 public:
  NativeWork(const std::shared_ptr<Engine>& engine, CollectiveArgs&& args)
      : Work(args.type, args.seq), engine_(engine), args_(std::move(args)) {}

  Work::Callbacks run() noexcept override {
    markStarted();
    std::exception_ptr failure;
    const std::shared_ptr<Engine> engine = engine_.lock();  // it is there: who drives is inside it
    try {
      engine->run(args_, args_.timeout);
    } catch (...) {
      failure = std::current_exception();
      engine->mail().noticeFailure();  // before anybody is told of it
    }
    return end(failure);
  }
  Work::Callbacks fail(std::exception_ptr reason) noexcept override {
    return end(std::move(reason));
  }
  bool isOver() noexcept override { return isCompleted(); }
  Milliseconds timeout() const noexcept override { return args_.timeout; }

 private:
  void help(TimePoint until) override {
    if (const std::shared_ptr<Engine> engine = engine_.lock()) {
      engine->lane.help(*this, until);
    }
  }

  Work::Callbacks end(std::exception_ptr failure) {
    TensorList outputs = std::move(args_.outputs);
    args_.inputs.clear();  // what they keep alive is not needed any more
    return finishDeferred(std::move(failure), std::move(outputs));
  }

  // Weak: a Work that is kept when it is over must not keep the memory of its group.
  const std::weak_ptr<Engine> engine_;
  CollectiveArgs args_;  // with its timeout
};

NativeBackend::NativeBackend(const BackendParams& params)
    : Backend(params, {.ops = kOps, .devices = {DeviceType::CPU}, .coalescing = true}),
      engine_(Engine::make(params)) {
  static_cast<void>(finishedWork());  // made now, so that runHere() can not lack it
}

NativeBackend::~NativeBackend() {
  if (!madeIn_.inChild()) {
    engine_->end();
  }
}

WorkPtr NativeBackend::start(CollectiveArgs&& args) {
  madeIn_.check("group");
  if (isP2POp(args.type)) {
    return startMessage(std::move(args));
  }
  // The one finished Work has no result to give.
  const bool hasResult = args.type == OpType::ALLREDUCE_SPARSE;
  if (!args.asyncOp && !hasResult && engine_->lane.tryTake()) {
    return runHere(args);
  }
  checkRoom(1, args.type);
  args.timeout = timeoutOf(args);
  auto work = std::make_shared<NativeWork>(engine_, std::move(args));
  engine_->lane.push(work);
  return work;
}

WorkPtr NativeBackend::startMessage(CollectiveArgs&& args) {
  Mail& mail = engine_->mail();
  WorkPtr now = mailNow(mail, args);
  return now ? now : startMail({engine_, &mail}, std::move(args), timeoutOf(args));
}

WorkPtr NativeBackend::startCoalesced(std::vector<CollectiveArgs> batch) {
  madeIn_.check("group");
  checkRoom(batch.size(), OpType::COALESCED);
  const std::uint64_t seq = batch.empty() ? 0 : batch.front().seq;
  for (CollectiveArgs& args : batch) {
    args.asyncOp = true;  // none may wait before the others have started
    args.timeout = timeoutOf(args);
  }
  std::vector<WorkPtr> parts;
  for (CollectiveArgs& args : fuseSmallReductions(std::move(batch))) {
    parts.push_back(start(std::move(args)));
  }
  return parts.empty() ? finishedWork() : joinWorks(seq, std::move(parts));
}

void NativeBackend::checkRoom(std::size_t calls, OpType type) const {
  // Some of a batch may be messages: none of it is begun when these have no room, which post()
  // looks at for each.
  const bool full = engine_->lane.queued() + calls > kMostQueued ||
                    (calls > 1 && engine_->mail().underWay() + calls > Mail::kMostOpen);
  if (full) {
    throw DistBackendError({.reason = Reason::LIMIT,
                            .what = str("more than ", kMostQueued, " operations are under way"),
                            .hint = "wait for some of them",
                            .op = std::string(opName(type)),
                            .group = options().groupName});
  }
}

/// On this thread, which has the lane.
WorkPtr NativeBackend::runHere(CollectiveArgs& args) {
  try {
    engine_->run(args, timeoutOf(args));
  } catch (...) {
    engine_->mail().noticeFailure();
    engine_->lane.release();
    return failedWork(args.type, args.seq, std::current_exception());
  }
  engine_->lane.release();
  return finishedWork();
}

int NativeBackend::globalRank() const {
  return engine_->globalRanks[static_cast<std::size_t>(rank())];
}

void NativeBackend::monitoredBarrier(const BarrierOptions& opts, bool waitAllRanks) {
  madeIn_.check("group");
  CollectiveArgs args;
  args.type = OpType::BARRIER;
  args.timeout = opts.timeout;
  check(args);
  const MonitoredBarrierOptions options{.timeout = rank() == 0 ? timeoutOf(args) : timeout(),
                                        .waitAllRanks = waitAllRanks,
                                        .globalRanks = engine_->globalRanks};
  const std::shared_ptr<Engine> engine = engine_;
  runInTurn({engine, &engine->lane}, OpType::BARRIER,
            [&engine = *engine, options] { engine.monitoredBarrier(options); });
}

void NativeBackend::abort(std::exception_ptr reason) {
  if (madeIn_.inChild()) {
    return;
  }
  AbortCause cause{.reason = Reason::ABORTED,
                   .culprits = {rank()},
                   .reporter = rank(),
                   .seq = 0,
                   .text = str("rank ", globalRank(), " called abort()")};
  try {
    if (reason) {
      std::rethrow_exception(reason);
    }
  } catch (const std::exception& error) {
    cause.text += str(": ", error.what());
  } catch (...) {
    cause.text += ": with something that is no std::exception";
  }
  // Other threads may be waiting in an operation: the record ends their waits.
  engine_->fail(cause);
  if (!reason) {
    reason = std::make_exception_ptr(DistBackendError({.reason = Reason::ABORTED,
                                                       .what = cause.text,
                                                       .group = options().groupName,
                                                       .rank = rank(),
                                                       .world = size()}));
  }
  engine_->close(reason);
}

void NativeBackend::shutdown() {
  if (madeIn_.inChild()) {
    return;
  }
  ErrorFacts facts{.reason = Reason::SHUTDOWN,
                   .what = "the group has been shut down",
                   .group = options().groupName,
                   .rank = rank(),
                   .world = size()};
  const Milliseconds patience = timeout();
  const Deadline deadline = Deadline::after(patience);
  if (engine_->lane.drain(deadline) && engine_->mail().flush(deadline)) {
    engine_->close(std::make_exception_ptr(DistBackendError(std::move(facts))));
    engine_->leave();
    return;
  }
  facts.reason = Reason::TIMEOUT;
  facts.what =
      str("rank ", globalRank(), " shut the group down, and operations were still under way ",
          patience.count(), "ms later");
  facts.hint = "wait for operations before the group is shut down, or raise its timeout";
  const DistTimeoutError late(facts);
  // As in abort().
  engine_->fail({.reason = Reason::TIMEOUT,
                 .culprits = {rank()},
                 .reporter = rank(),
                 .seq = 0,
                 .text = facts.what});
  engine_->close(std::make_exception_ptr(late));
  static_cast<void>(engine_->lane.drain(Deadline::after(kTimeToNotice)));
  engine_->leave();
  throw late;
}

bool NativeBackend::supportsTensorAlloc(Device device) const {
  return device.type == DeviceType::CPU;
}

Tensor NativeBackend::allocateTensor(std::int64_t count, DType type) {
  madeIn_.check("group");
  UNISONO_CHECK(count >= 0, "a tensor cannot have ", count, " elements");
  std::size_t bytes = 0;
  UNISONO_CHECK(!__builtin_mul_overflow(static_cast<std::size_t>(count), elementSize(type), &bytes),
                "a tensor of ", count, " elements is larger than any memory");
  std::shared_ptr<std::byte> memory = engine_->allocate(bytes);
  return {memory.get(), type, Dims{count}, Device{}, memory};
}

ErrorType NativeBackend::error() const {
  const auto cause = engine_->cause();
  return !cause                             ? ErrorType::SUCCESS
         : cause->reason == Reason::TIMEOUT ? ErrorType::TIMEOUT
                                            : ErrorType::COMM_ERROR;
}

}  // namespace unisono

// TorchWork: an operation of ours under way, as PyTorch knows one.
//
// Thread safety: every public method may be called from any thread; begin() once, before the work
// is given to anybody.
#pragma once

#include <ATen/core/ivalue.h>
#include <atomic>
#include <functional>
#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "unisono/work/work.hpp"

#include "base/mutex.hpp"
#include "convert.hpp"
#include "errors.hpp"

namespace unisono::plugin {

/// "unisono:all_reduce": the name of an operation in PyTorch's profiles.
inline const char* profileTitle(OpType type) {
  static const std::vector<std::string>* const kTitles = [] {
    auto* const titles = new std::vector<std::string>;  // never destroyed: works outlive statics
    for (int i = 0; i < kOpTypeCount; ++i) {
      const auto each = static_cast<OpType>(i);
      // Spelt as in profiles of gloo, by which PyTorch's tools look for it.
      const bool anybody = each == OpType::RECVANYSOURCE;
      titles->push_back("unisono:" + (anybody ? "recvAnySource" : std::string(opName(each))));
    }
    return titles;
  }();
  return kTitles->at(static_cast<std::size_t>(type)).c_str();
}

/// A callback of a work. How many there are is known: the interpreter must not go before them.
class CountedCallback {
 public:
  explicit CountedCallback(std::function<void()> action)
      : counted_(toCome(), [](std::atomic<int>* count) { count->fetch_sub(1); }),
        action_(std::move(action)) {
    toCome()->fetch_add(1);
  }
  void operator()() const { action_(); }

  /// Those that have not run yet, or are not gone.
  static std::atomic<int>* toCome() {
    static std::atomic<int> count{0};
    return &count;
  }

 private:
  std::shared_ptr<std::atomic<int>> counted_;  // goes after what the action holds
  std::function<void()> action_;
};

class TorchWork final : public c10d::Work {
 public:
  /// From here on the operation counts as running in PyTorch's profiles. `inputs` are for these
  /// only, `outputs` are what it results in: one list, or several.
  TorchWork(int rank, OpType type, const TorchTensors& inputs, std::vector<TorchTensors> outputs)
      : c10d::Work(rank, static_cast<c10d::OpType>(type), profileTitle(type), inputs),
        recorded_(recordFunctionEndCallback_ != nullptr),
        outputs_(std::move(outputs)) {}

  ~TorchWork() override { endRecord(); }

  /// What was started; `latest` is its number, unless it has one itself. `settle` does what
  /// remains when it has succeeded.
  void begin(WorkPtr inner, std::uint64_t latest,
             std::function<void(const TensorList&)> settle = {}) {
    inner_ = std::move(inner);
    seq_ = inner_->sequenceNumber() != 0 ? inner_->sequenceNumber() : latest;
    settle_ = std::move(settle);
    if (recorded_ || settle_) {
      inner_->addCallback(CountedCallback([self = shared()] {
        try {
          self->complete();
        } catch (...) {  // who waits is told
        }
      }));
    }
  }

  bool isCompleted() override {
    if (!inner_->isCompleted()) {
      return false;
    }
    complete();
    return true;
  }

  bool isSuccess() const override { return inner_->isSuccess(); }
  std::exception_ptr exception() const override { return errorForTorch(inner_->exception()); }

  bool wait(std::chrono::milliseconds timeout) override {
    return forTorch([&] {
      const bool ended = inner_->wait(timeout);
      if (ended) {
        complete();
        synchronize();
      }
      return ended;
    });
  }

  void abort() override {
    forTorch([&] { inner_->abort(); });
  }

  int sourceRank() const override {
    return forTorch([&] { return inner_->sourceRank(); });
  }

  TorchTensors result() override {
    TORCH_CHECK(inner_->isCompleted(), "Work needs to be completed before calling result()");
    TORCH_CHECK(outputs_.size() <= 1,
                "work result does not support list of lists, use .getFuture() and value()");
    return outputs_.empty() ? TorchTensors{} : outputs_.front();
  }

  float getDuration() const override {
    return forTorch([&] { return inner_->duration().count(); });
  }

  std::uint64_t getSequencenumber() const override { return seq_; }

  /// Made when it is first asked for: most works are only waited for.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override UNISONO_EXCLUDES(making_) {
    c10::intrusive_ptr<c10::ivalue::Future> future;
    {
      const MutexLock lock(making_);
      if (future_) {
        return future_;
      }
      future_ = future = c10::make_intrusive<c10::ivalue::Future>(valueType());
    }
    // Without the lock: what others have added to the future meanwhile runs in this callback.
    inner_->addCallback(CountedCallback([self = shared(), future] { self->fulfil(*future); }));
    return future;
  }

  /// How it ended, as a number; never an error.
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override {
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get());
    inner_->addCallback(CountedCallback([self = shared(), future] {
      future->markCompleted(static_cast<std::int64_t>(self->inner_->info().result));
    }));
    return future;
  }

 private:
  c10::intrusive_ptr<TorchWork> shared() {
    return c10::intrusive_ptr<TorchWork>::reclaim_copy(this);
  }

  /// Once, when the operation has ended: writes what has to be written, ends the record.
  void complete() UNISONO_EXCLUDES(settling_) {
    if (settle_ && inner_->isSuccess()) {
      const MutexLock lock(settling_);
      if (!std::exchange(settled_, true)) {
        settle_(inner_->result());
      }
    }
    endRecord();
  }

  void endRecord() {
    if (recorded_) {
      finish();  // a second time it does nothing
    }
  }

  c10::IValue value() const {
    if (outputs_.size() <= 1) {
      return outputs_.empty() ? TorchTensors{} : outputs_.front();
    }
    return outputs_;
  }

  c10::TypePtr valueType() const {
    const c10::TypePtr list = c10::ListType::create(c10::TensorType::get());
    return outputs_.size() > 1 ? c10::ListType::create(list) : list;
  }

  void fulfil(c10::ivalue::Future& future) {
    std::exception_ptr error = exception();
    try {
      complete();
    } catch (...) {
      error = std::current_exception();
    }
    if (error) {
      future.setError(std::move(error));
    } else {
      future.markCompleted(value());
    }
  }

  const bool recorded_;  // by a profiler
  WorkPtr inner_;
  std::uint64_t seq_ = 0;
  const std::vector<TorchTensors> outputs_;
  std::function<void(const TensorList&)> settle_;
  Mutex settling_;
  bool settled_ UNISONO_GUARDED_BY(settling_) = false;
  Mutex making_;
  c10::intrusive_ptr<c10::ivalue::Future> future_ UNISONO_GUARDED_BY(making_);
};

}  // namespace unisono::plugin

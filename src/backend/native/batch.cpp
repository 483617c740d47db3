#include "backend/native/batch.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

namespace unisono {
namespace {

// Fused, each byte is copied twice more: worth it only where agreeing takes longer than copying.
// A guess, not measured.
constexpr std::size_t kMostFused = std::size_t{32} * 1024;

bool mayBeFused(const CollectiveArgs& args) {
  // The factor of PREMUL_SUM may differ from rank to rank.
  return args.type == OpType::ALLREDUCE && args.outputs.size() == 1 &&
         args.outputs[0].bytes() <= kMostFused && !(args.reduceOp == ReduceOp::PREMUL_SUM);
}

bool agree(const CollectiveArgs& one, const CollectiveArgs& other) {
  return one.reduceOp == other.reduceOp && one.outputs[0].dtype() == other.outputs[0].dtype();
}

class JointWork final : public Work {
 public:
  JointWork(std::uint64_t seq, std::vector<WorkPtr> parts)
      : Work(OpType::COALESCED, seq), parts_(std::move(parts)), running_(parts_.size()) {}

  void follow() {
    markStarted();
    const WorkPtr self = shared_from_this();
    for (const WorkPtr& part : parts_) {
      part->addCallback([self] { static_cast<JointWork&>(*self).onePartEnded(); });
    }
  }

 private:
  void help(TimePoint until) override {
    for (const WorkPtr& part : parts_) {
      if (!part->waitUntilDone(until)) {
        return;
      }
    }
  }

  void onePartEnded() {
    // Acquire and release: the last one sees how all others have ended.
    if (running_.fetch_sub(1, std::memory_order_acq_rel) > 1) {
      return;
    }
    try {
      finish(nullptr, outputs());
    } catch (...) {  // what a part failed with, or no memory for the list: who waits must be told
      finish(std::current_exception());
    }
  }

  /// Of all parts. Throws what the first of them has failed with.
  TensorList outputs() const {
    TensorList all;
    for (const WorkPtr& part : parts_) {
      if (const std::exception_ptr failure = part->exception()) {
        std::rethrow_exception(failure);
      }
      for (const Tensor& output : part->result()) {
        all.append(output);
      }
    }
    return all;
  }

  const std::vector<WorkPtr> parts_;
  std::atomic<std::size_t> running_;
};

}  // namespace

std::vector<CollectiveArgs> fuseSmallReductions(std::vector<CollectiveArgs> batch) {
  std::vector<CollectiveArgs> fused;
  std::size_t last = 0;  // the reduction that more may be added to
  std::size_t room = 0;  // in it
  for (CollectiveArgs& args : batch) {
    if (!mayBeFused(args)) {
      // Other ranks send and receive something else, or nothing, at this place.
      room = isP2POp(args.type) ? room : 0;
      fused.push_back(std::move(args));
      continue;
    }
    const std::size_t bytes = args.outputs[0].bytes();
    if (room == 0 || bytes > room || !agree(fused[last], args)) {
      room = kMostFused - bytes;
      last = fused.size();
      fused.push_back(std::move(args));
      continue;
    }
    room -= bytes;
    CollectiveArgs& whole = fused[last];
    whole.type = OpType::ALLREDUCE_COALESCED;
    whole.timeout = std::max(whole.timeout, args.timeout);
    whole.outputs.append(std::move(args.outputs[0]));
  }
  return fused;
}

WorkPtr joinWorks(std::uint64_t seq, std::vector<WorkPtr> parts) {
  const auto work = std::make_shared<JointWork>(seq, std::move(parts));
  work->follow();
  return work;
}

}  // namespace unisono

#include "backend/native/lane_call.hpp"

#include <memory>
#include <utility>

#include "unisono/work/work.hpp"

namespace unisono {
namespace {

/// One that is queued. It owns what it runs: an interrupt may end the caller's wait before it.
class LaneCall final : public Work, public LaneItem {
 public:
  LaneCall(const std::shared_ptr<Lane>& lane, OpType type, std::function<void()> body)
      : Work(type), lane_(lane), body_(std::move(body)) {}

  Work::Callbacks run() noexcept override {
    std::exception_ptr failure;
    try {
      body_();
    } catch (...) {
      failure = std::current_exception();
    }
    return finishDeferred(std::move(failure));
  }
  Work::Callbacks fail(std::exception_ptr reason) noexcept override {
    return finishDeferred(std::move(reason));
  }
  bool isOver() noexcept override { return isCompleted(); }
  Milliseconds timeout() const noexcept override { return Milliseconds::max(); }  // not known

 private:
  void help(Work::TimePoint until) override {
    if (const std::shared_ptr<Lane> lane = lane_.lock()) {
      lane->help(*this, until);
    }
  }

  const std::weak_ptr<Lane> lane_;  // as it is in the lane itself
  const std::function<void()> body_;
};

/// The driver's role, which was taken; given back at the end.
class Turn {
 public:
  explicit Turn(Lane& lane) noexcept : lane_(lane) {}
  ~Turn() { lane_.release(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Lane& lane_;
};

}  // namespace

void runInTurn(const std::shared_ptr<Lane>& lane, OpType type, std::function<void()> body) {
  if (lane->tryTake()) {
    const Turn turn(*lane);
    body();
    return;
  }
  const auto call = std::make_shared<LaneCall>(lane, type, std::move(body));
  lane->push(call);
  call->wait();
}

}  // namespace unisono

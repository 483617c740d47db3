#include "launch/passage.hpp"

#include <utility>

#include "store/tcp/codec.hpp"

namespace unisono::launch {
namespace {

/// What PyTorch's clients begin with.
const std::string& stockHello() {
  static const std::string hello =
      tcp::RequestWriter().begin(tcp::Query::VALIDATE).u32(tcp::kMagic).bytes();
  return hello;
}

}  // namespace

bool Passage::wantsFrom(Side side) const noexcept {
  if (hasEnded(side)) {
    return false;
  }
  if (side == Side::FAR) {
    return toNear_.empty();
  }
  return (stage_ == Stage::LISTENING || stage_ == Stage::OPEN) && toFar_.empty();
}

Status Passage::take(Side side, std::string_view bytes) {
  return side == Side::NEAR ? takeFromClient(bytes) : takeFromStore(bytes);
}

Status Passage::takeFromClient(std::string_view bytes) {
  if (stage_ == Stage::OPEN) {
    toFar_ += bytes;
    return Status::ok();
  }
  held_ += bytes;
  const std::string& hello = stockHello();
  if (!held_.starts_with(std::string_view(hello).substr(0, held_.size()))) {
    stage_ = Stage::OPEN;  // the store judges it
    toFar_ = std::exchange(held_, {});
  } else if (held_.size() >= hello.size()) {
    held_.erase(0, hello.size());
    stage_ = Stage::PROVING;
    connector_.emplace(key_, std::string(kHandshakeIdSize, '\0'), "");
    toFar_ = connector_->hello();
  }
  return Status::ok();
}

Status Passage::takeFromStore(std::string_view bytes) {
  if (stage_ == Stage::OPEN) {
    toNear_ += bytes;
    return Status::ok();
  }
  answer_ += bytes;
  if (stage_ == Stage::PROVING && answer_.size() >= kChallengeSize) {
    const std::optional<std::string> proof =
        connector_->prove(std::string_view(answer_).substr(0, kChallengeSize));
    if (!proof) {
      return {Reason::AUTH_FAILED, "the store of the job does not know the job's secret"};
    }
    answer_.erase(0, kChallengeSize);
    stage_ = Stage::AWAITING_WELCOME;
    toFar_ += *proof;
  }
  if (stage_ == Stage::AWAITING_WELCOME && !answer_.empty()) {
    if (answer_.front() != kWelcome) {
      return {Reason::PROTOCOL,
              "the store of the job answers the proof of the secret with nonsense"};
    }
    stage_ = Stage::OPEN;
    toFar_ += std::exchange(held_, {});
    toNear_ += std::exchange(answer_, {}).substr(1);
  }
  return Status::ok();
}

}  // namespace unisono::launch

#include "life/abort_record.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/wait.hpp"

namespace unisono {
namespace {

// A writer that takes longer has died, or as good as that. Others may have its core for some turns.
constexpr Milliseconds kWriteTime(200);

/// Reads once: what is checked is what is used, though another process may write anything here.
template <typename T>
T once(const T& shared) noexcept {
  return *const_cast<const volatile T*>(&shared);
}

}  // namespace

bool AbortRecord::publish(const AbortCause& cause) noexcept {
  std::uint32_t none = kNone;
  const std::uint32_t writing =
      cause.reporter < 0 ? kWriting : kWriter + static_cast<std::uint32_t>(cause.reporter);
  if (!state_.compare_exchange_strong(none, writing, std::memory_order_relaxed)) {
    return false;
  }
  reason_ = static_cast<std::uint32_t>(cause.reason);
  for (const int rank : cause.culprits) {
    const auto place = static_cast<std::size_t>(rank);
    if (place < kMostRanks) {  // also when it is negative
      culprits_[place / 64] |= 1ULL << (place % 64);
    }
  }
  reporter_ = cause.reporter;
  seq_ = cause.seq;
  textSize_ = static_cast<std::uint32_t>(std::min(cause.text.size(), sizeof text_));
  std::memcpy(text_, cause.text.data(), textSize_);
  // Release: whoever sees the state also sees the fields.
  state_.store(kPublished, std::memory_order_release);
  return true;
}

std::optional<AbortCause> AbortRecord::read(const std::function<bool(int)>& hasDied) const {
  if (!isSet()) {
    return std::nullopt;
  }
  std::uint32_t state = kNone;
  TimerWaitable timer{Milliseconds(1)};
  static_cast<void>(waitUntil(
      [&] {
        // Acquire: pairs with the release in publish().
        state = state_.load(std::memory_order_acquire);
        return state == kPublished || (hasDied && isRank(state) && hasDied(rankOf(state)));
      },
      // It is read where nothing may be thrown, too.
      {.deadline = Deadline::after(kWriteTime), .subject = {}, .interruptible = false}, timer));
  state = state_.load(std::memory_order_acquire);  // it may have died afterwards
  AbortCause cause;
  if (state != kPublished) {
    if (isRank(state)) {
      cause.culprits.push_back(rankOf(state));
    }
    cause.text = "a rank died while it was reporting a failure";
    return cause;
  }
  const std::uint32_t reason = once(reason_);
  const std::uint32_t size = std::min<std::uint32_t>(once(textSize_), sizeof text_);
  if (reason <= static_cast<std::uint32_t>(Reason::USAGE)) {
    cause.reason = static_cast<Reason>(reason);
  }
  for (std::size_t word = 0; word < kMostRanks / 64; ++word) {
    for (std::uint64_t bits = culprits_[word]; bits != 0; bits &= bits - 1) {
      cause.culprits.push_back(static_cast<int>(word * 64) + std::countr_zero(bits));
    }
  }
  cause.reporter = reporter_;
  cause.seq = seq_;
  cause.text.assign(text_, size);
  return cause;
}

}  // namespace unisono

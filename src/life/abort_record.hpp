// AbortRecord: why a group failed, told once to all of its ranks.
//
// It lives in the memory that the ranks of a host share. The first to write it wins; everybody
// who waits looks at it, and every later call of the group fails with what it says.
//
// Thread safety: everything here, from any thread of any process that maps it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/error.hpp"

namespace unisono {

/// What a record says.
struct AbortCause {
  Reason reason = Reason::ABORTED;
  std::vector<int> culprits = {};  // ranks in the group; empty when unknown
  int reporter = -1;               // rank that noticed
  std::uint64_t seq = 0;
  std::string text;
};

class AbortRecord {
 public:
  /// Writes the cause, unless another one is there already; whether it was this one.
  bool publish(const AbortCause& cause) noexcept;

  /// Whether the group has failed: one load, for every turn of a wait.
  bool isSet() const noexcept { return state_.load(std::memory_order_relaxed) != kNone; }

  /// What failed it. Waits for a writer that is not done, but not long; one that died while writing
  /// is the culprit. `hasDied` knows of ranks. Nothing when the group is fine.
  std::optional<AbortCause> read(const std::function<bool(int)>& hasDied = nullptr) const;

 private:
  static constexpr std::size_t kMostRanks = 1024;
  static constexpr std::uint32_t kNone = 0;
  static constexpr std::uint32_t kWriting = 1;
  static constexpr std::uint32_t kPublished = 2;
  static constexpr std::uint32_t kWriter = 3;  // plus a rank: being written by that one
  static bool isRank(std::uint32_t state) noexcept {
    return state >= kWriter && state - kWriter < kMostRanks;
  }
  static int rankOf(std::uint32_t state) noexcept { return static_cast<int>(state - kWriter); }

  std::atomic<std::uint32_t> state_;
  std::uint32_t reason_;
  std::int32_t reporter_;
  std::uint32_t textSize_;
  std::uint64_t seq_;
  std::uint64_t culprits_[kMostRanks / 64];  // a bit per rank
  char text_[488];
};
static_assert(sizeof(AbortRecord) == 640);

}  // namespace unisono

// CallLog: what a rank has called last, by number. Whoever differs may be heard, or asked, when the
// rank is operations further.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/mutex.hpp"
#include "transport/communicator.hpp"
#include "transport/mesh/wire.hpp"

namespace unisono::mesh {

/// Written by who drives operations, read for reports too. From any thread.
class CallLog {
 public:
  static constexpr std::size_t kKept = 16;

  void note(std::uint64_t seq, const Call& call) noexcept {
    const MutexLock lock(mutex_);
    last_ = seq;
    recent_[seq % kKept] = call;
  }

  /// The number of the last call; 0 before the first.
  std::uint64_t last() const noexcept {
    const MutexLock lock(mutex_);
    return last_;
  }

  /// Nothing when it was never called, or is forgotten.
  std::optional<Call> at(std::uint64_t seq) const noexcept {
    const MutexLock lock(mutex_);
    return isKept(seq) ? std::optional(recent_[seq % kKept]) : std::nullopt;
  }

  /// Those that are kept, as heads of frames without data; the oldest first.
  std::vector<Frame> all() const {
    const MutexLock lock(mutex_);
    std::vector<Frame> frames;
    for (std::uint64_t seq = last_ < kKept ? 1 : last_ - kKept + 1; seq <= last_; ++seq) {
      frames.push_back({.seq = seq, .bytes = 0, .call = recent_[seq % kKept]});
    }
    return frames;
  }

 private:
  bool isKept(std::uint64_t seq) const noexcept UNISONO_REQUIRES(mutex_) {
    return seq > 0 && seq <= last_ && last_ - seq < kKept;
  }

  mutable Mutex mutex_;
  std::uint64_t last_ UNISONO_GUARDED_BY(mutex_) = 0;
  std::array<Call, kKept> recent_ UNISONO_GUARDED_BY(mutex_){};
};

}  // namespace unisono::mesh

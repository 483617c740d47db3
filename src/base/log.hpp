// Log: one-line messages on stderr, by level and room.
//
//   UNISONO_LOG(WARN, "store", "client ", id, " sent an unknown query type ", type);
//
// UNISONO_LOG=warn (the default), or levels by room: UNISONO_LOG=info,store=debug.
// Times are UTC, so that the lines of several hosts can be merged.
//
// Thread safety: everything here may be called from any thread; nothing throws. A forked child
// keeps the rank but not the sink, which may hold locks of threads that the child does not have.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "base/str.hpp"

namespace unisono {

enum class LogLevel : std::uint8_t { DEBUG, INFO, WARN, ERROR, OFF };

/// Whether a message of this level and room would be shown.
bool logEnabled(LogLevel level, std::string_view room) noexcept;

/// Shows `text`. Prefer UNISONO_LOG, which builds the text only when it is shown.
void logLine(LogLevel level, std::string_view room, std::string_view text) noexcept;

/// Puts "[rank r] " in front of every line from now on; -1 for none.
void setLogRank(int rank) noexcept;

/// Sends lines elsewhere (tests, embedding programs); an empty function restores stderr. Lines
/// that other threads are writing meanwhile may still go to the old sink.
using LogSink = std::function<void(LogLevel, std::string_view line)>;
void setLogSink(LogSink sink);

/// Keeps one kind of message from flooding: at most one line per period and key.
class LogLimit {
 public:
  explicit LogLimit(Milliseconds period = std::chrono::seconds(60)) : period_(period) {}

  /// True when the message may be shown now; `*suffix` then says how many were left out since.
  bool admit(std::string* suffix, const Clock& clock = systemClock()) noexcept
      UNISONO_EXCLUDES(mutex_);

 private:
  const Milliseconds period_;
  Mutex mutex_;
  Deadline silentUntil_ UNISONO_GUARDED_BY(mutex_) = Deadline::at(TimePoint::min());
  std::uint64_t leftOut_ UNISONO_GUARDED_BY(mutex_) = 0;
};

}  // namespace unisono

/// UNISONO_LOG(LEVEL, room, parts…). Does not throw: not even when a part cannot be shown.
#define UNISONO_LOG(level, room, ...)                                                      \
  do {                                                                                     \
    if (::unisono::logEnabled(::unisono::LogLevel::level, room)) {                         \
      try {                                                                                \
        ::unisono::logLine(::unisono::LogLevel::level, room, ::unisono::str(__VA_ARGS__)); \
      } catch (const ::std::exception& unisonoLogError) {                                  \
        ::unisono::logLine(::unisono::LogLevel::level, room, unisonoLogError.what());      \
      }                                                                                    \
    }                                                                                      \
  } while (false)

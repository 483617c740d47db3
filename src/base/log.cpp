#include "base/log.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fmt/format.h>
#include <functional>
#include <new>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <utility>

#include "base/env.hpp"
#include "base/fork.hpp"
#include "base/log_levels.hpp"

namespace unisono {
namespace {

UNISONO_KNOB(std::string, kLog, "UNISONO_LOG", "warn",
             "what is logged: debug, info, warn, error or off; by room: info,store=debug");

spdlog::level::level_enum toSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::DEBUG:
      return spdlog::level::debug;
    case LogLevel::INFO:
      return spdlog::level::info;
    case LogLevel::WARN:
      return spdlog::level::warn;
    case LogLevel::ERROR:
      return spdlog::level::err;
    case LogLevel::OFF:
      break;
  }
  return spdlog::level::off;
}

/// The time now in UTC, "2024-02-29T23:59:59.999Z". By arithmetic, not by localtime_r or
/// gmtime_r: both take a lock of the C library that a forked child may find held for ever.
std::string timeStamp() {
  const auto now = std::chrono::floor<Milliseconds>(std::chrono::system_clock::now());
  const auto today = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(today);
  const std::chrono::hh_mm_ss time(now - today);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count(),
                     time.subseconds().count());
}

constinit std::atomic<int> logRank{-1};  // beside the logger: forked children keep it

/// Everything logging needs. Leaked, so that it works until the process is gone.
class Logger {
 public:
  Logger() : levels_(kLog.read()) { out_.set_pattern("%v"); }

  bool shows(LogLevel level, std::string_view room) const { return level >= levels_.of(room); }

  void write(LogLevel level, std::string_view room, std::string_view text) {
    const int rank = logRank.load(std::memory_order_relaxed);
    const std::string line = rank < 0
                                 ? str("unisono/", room, ": ", printable(text))
                                 : str("[rank ", rank, "] unisono/", room, ": ", printable(text));
    if (const LogSink sink = currentSink()) {
      sink(level, line);
    } else {
      writeToStderr(toSpdlog(level), line);
    }
  }

  void swapSink(LogSink& sink) UNISONO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    sink_.swap(sink);
  }
  bool inherited() const { return madeIn_.inChild(); }

  void warnOfUnknownLevel() {
    if (!levels_.unknown.empty()) {
      write(LogLevel::WARN, "log",
            str(kLog.name, " holds '", levels_.unknown, "', which names no level and counts as ",
                "warn; set: ", kLog.doc));
    }
  }

 private:
  LogSink currentSink() UNISONO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return sink_;
  }

  void writeToStderr(spdlog::level::level_enum level, std::string_view line)
      UNISONO_EXCLUDES(mutex_) {
    const std::string text = str(timeStamp(), " ", spdlog::level::to_string_view(level), " ", line);
    const MutexLock lock(mutex_);
    out_.log(spdlog::details::log_msg("unisono", level, text));
  }

  const LogLevels levels_;
  const ForkGuard madeIn_;
  Mutex mutex_;
  LogSink sink_ UNISONO_GUARDED_BY(mutex_);
  // Not the one with a lock of its own: all of those share one, also with forked children.
  spdlog::sinks::stderr_sink_st out_ UNISONO_GUARDED_BY(mutex_);
};

Logger& logger() {
  static std::atomic<Logger*> instance{nullptr};
  Logger* current = instance.load(std::memory_order_acquire);
  // A forked child makes its own: a lock of the old one may have been held during the fork.
  if (current == nullptr || current->inherited()) {
    const bool first = current == nullptr;
    auto* made = new Logger();
    if (!instance.compare_exchange_strong(current, made, std::memory_order_acq_rel)) {
      delete made;  // another thread was first
      return *current;
    }
    if (first) {
      made->warnOfUnknownLevel();
    }
    return *made;
  }
  return *current;
}

}  // namespace

bool logEnabled(LogLevel level, std::string_view room) noexcept {
  try {
    return logger().shows(level, room);
  } catch (...) {  // out of memory: logging is the first thing to do without
    return false;
  }
}

void logLine(LogLevel level, std::string_view room, std::string_view text) noexcept {
  try {
    logger().write(level, room, text);
  } catch (...) {  // a full disk or no memory must not end the caller's work
    return;
  }
}

void setLogRank(int rank) noexcept {
  logRank.store(rank, std::memory_order_relaxed);
}

void setLogSink(LogSink sink) {
  logger().swapSink(sink);  // the old one is destroyed here, without the lock: it may log
}

bool LogLimit::admit(std::string* suffix, const Clock& clock) noexcept {
  const MutexLock lock(mutex_);
  if (!silentUntil_.expired(clock)) {
    ++leftOut_;
    return false;
  }
  silentUntil_ = Deadline::after(period_, clock);
  try {
    *suffix = leftOut_ == 0 ? "" : str(" (", leftOut_, " more like this since)");
  } catch (const std::bad_alloc&) {  // the line matters more than the count
    suffix->clear();
  }
  leftOut_ = 0;
  return true;
}

}  // namespace unisono

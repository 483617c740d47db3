// Agenda: what will happen when, in a time of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "base/clock.hpp"

namespace unisono::simulation {

using Micros = std::int64_t;
constexpr Micros kMilli = 1000;

class Agenda {
 public:
  Micros now() const { return now_; }
  TimePoint timePoint() const { return TimePoint() + std::chrono::microseconds(now_); }

  /// What is planned for one moment happens in the order in which it was planned.
  void at(Micros when, std::function<void()> what) {
    entries_.push({std::max(when, now_), ++count_, std::move(what)});
  }
  void after(Micros delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }

  /// Lets the next thing happen; false when nothing is planned until `end`.
  bool next(Micros end) {
    if (entries_.empty() || entries_.top().when > end) {
      return false;
    }
    const Entry entry = entries_.top();
    entries_.pop();
    now_ = entry.when;
    entry.what();
    return true;
  }

 private:
  struct Entry {
    Micros when;
    std::uint64_t number;
    std::function<void()> what;
    bool operator<(const Entry& other) const {  // the queue has the greatest on top
      return std::pair(when, number) > std::pair(other.when, other.number);
    }
  };
  Micros now_ = 0;
  std::uint64_t count_ = 0;
  std::priority_queue<Entry> entries_;
};

}  // namespace unisono::simulation

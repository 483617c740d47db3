// Machine: the processor, the clock and the kernel of an exploration.
//
// Ranks are fibers. Each access to shared memory by an atomic, each futex call and each sleep is a
// point at which the strategy may let another rank run, kill the rank, or keep a store in the
// rank's store buffer. Time passes only when everybody sleeps.
//
// The code under test knows nothing of this. It is compiled as for ThreadSanitizer, which makes the
// compiler call a function for every atomic access; hooks.cpp has those functions.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "explore/fiber.hpp"
#include "explore/schedule.hpp"

namespace unisono::explore {

/// What became of one rank.
struct End {
  enum How : std::uint8_t { RUNNING, FINISHED, FAILED, KILLED };
  How how = RUNNING;
  std::string reason;  // of the error: its token, or "?" for one that is none of ours
  std::string text;
  std::vector<int> culprits;
  TimePoint when;
};

/// One run.
struct Run {
  std::vector<End> ends;  // by rank
  int victim = -1;
  TimePoint killedAt;
  std::string schedule;
  std::string broken;  // the first promise that was, if any
  std::uint64_t points = 0;
  std::uint64_t late = 0;  // sleeps that went on although what was waited for was there
};

/// A mistake that is made on purpose, to see that it is found.
enum class Mistake : std::uint8_t {
  NONE,
  LOST_WAKES,        // a futex wakes nobody
  WEAK_PUBLICATION,  // an exchange that publishes is a store that may be delayed
  WEAK_MARKS,        // the mark of a sleeper is delayed: it looks before it has marked its door
  SILENT_DEATHS,     // the kernel does not mark the words of a process that dies
};

/// An atomic access to shared memory.
struct Access {
  volatile void* address;
  std::size_t bytes;
  enum Kind : std::uint8_t { LOAD, STORE, CHANGE } kind;
  bool strong;  // sequentially consistent
};

class Machine {
 public:
  using Body = std::function<void()>;

  Machine();
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// The one that runs; null while none does.
  static Machine* running() noexcept;

  void setMistake(Mistake mistake) noexcept { mistake_ = mistake; }
  /// Words whose change is not yet progress: doors.
  void setDoors(std::vector<const void*> doors) { doors_ = std::move(doors); }

  /// Runs one body per rank to its end.
  Run run(const std::vector<Body>& bodies, Strategy& strategy);

  // --- called by what stands in for the system, on a rank's fiber ---

  int rank() const noexcept { return current_; }
  bool isDead(int rank) const {
    return ranks_.at(static_cast<std::size_t>(rank)).end.how == End::KILLED;
  }
  TimePoint now() noexcept;
  /// While true the running rank cannot be killed: what it does is done for it by somebody else.
  void protect(bool on) noexcept { protected_ = on; }
  /// The words that the kernel marks when the running rank dies.
  void holdLife(std::uint32_t& word);
  void letLifeGo(std::uint32_t& word);

  /// Before an access: others may run first. True when it is a store that shall be delayed.
  bool point(const Access& access);
  /// A store into the buffer of the running rank.
  void delay(const Access& access, std::uint64_t value);
  /// What the running rank itself sees there, if that is still in its buffer.
  bool findDelayed(const Access& access, std::uint64_t& value) const;
  void drain() { drain(current_); }

  void sleepOn(const volatile std::uint32_t* word, std::uint32_t seen, Milliseconds most);
  void wake(const volatile void* word);
  void sleepFor(std::chrono::nanoseconds time);

 private:
  struct Delayed {
    Access access;
    std::uint64_t value;
  };
  struct Rank {
    Fiber fiber;
    End end;
    bool sleeps = false;
    const volatile void* sleepsOn = nullptr;  // null: just time
    TimePoint due;
    std::deque<Delayed> buffer;
    std::vector<std::uint32_t*> lives;
  };
  static constexpr std::uint64_t kMostPoints = 200'000;
  static constexpr std::size_t kBuffer = 4;
  static constexpr std::chrono::seconds kLongestRun{60};

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  int size() const noexcept { return static_cast<int>(ranks_.size()); }
  void live(int rank, const Body& body);
  void loop();
  int pickNext();
  int pickSleeper();
  const Option& ask(std::span<const Option> options);
  void nap(const volatile void* word, TimePoint due);
  void kill();
  void drain(int rank);
  void apply(const Delayed& store);
  void progress(const volatile void* address);
  void breakPromise(const std::string& what);
  bool isDoor(const volatile void* address) const noexcept;

  std::deque<Rank> ranks_;  // stays where it is: fibers do not move
  Strategy* strategy_ = nullptr;
  Run run_;
  Mistake mistake_ = Mistake::NONE;
  std::vector<const void*> doors_;
  TimePoint start_;
  TimePoint now_;
  int current_ = 0;
  bool protected_ = false;
  int next_ = -1;  // whom a point gave way to
  int lateSleeper_ =
      -1;  // whose sleep has just ended by time alone, when nobody could have woken it
};

}  // namespace unisono::explore

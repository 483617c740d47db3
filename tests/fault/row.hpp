// Row: one fault, what must come of it, and how long that may take.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "base/str.hpp"

namespace unisono::fault {

/// A promise was broken.
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// This machine cannot show the fault; the text says why.
struct Skipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <typename... Parts>
void require(bool good, const Parts&... parts) {
  if (!good) {
    throw Broken(str(parts...));
  }
}

/// How the ranks of a round reach each other.
enum class Way : std::uint8_t {
  SHM,    // shared memory
  TCP,    // TCP, as they were told, although they are on one host
  HOSTS,  // TCP, since they take themselves to be on two hosts
};
constexpr const char* nameOf(Way way) noexcept {
  return way == Way::SHM ? "shm" : way == Way::TCP ? "tcp" : "hosts";
}

/// One time that a fault happens.
class Round {
 public:
  /// `thorough`: as large as the specification says, not as small as tests must be.
  Round(std::uint64_t seed, int number, bool thorough, Way way)
      : rng_(seed * 1'000'003 + static_cast<std::uint64_t>(number)),
        number_(number),
        thorough_(thorough),
        way_(way) {}

  SeededRng& rng() { return rng_; }
  int number() const { return number_; }
  bool isThorough() const { return thorough_; }
  Way way() const { return way_; }
  bool isByTcp() const { return way_ != Way::SHM; }
  int pick(int below) { return static_cast<int>(rng_.next() % static_cast<std::uint64_t>(below)); }

  /// A time to be judged by the row's bound.
  void took(std::int64_t ns) { tookMs_.push_back(static_cast<double>(ns) / 1e6); }
  const std::vector<double>& tookMs() const { return tookMs_; }

 private:
  SeededRng rng_;
  const int number_;
  const bool thorough_;
  const Way way_;
  std::vector<double> tookMs_;
};

struct Row {
  const char* id;        // "F1"
  const char* name;      // of the test
  const char* fault;     // what happens
  const char* expected;  // what must come of it
  // At the earliest, and how much later at most. A slack of 0: that it ends is enough.
  Milliseconds after;
  Milliseconds slack;
  void (*run)(Round& round);  // throws Broken or Skipped
  int rounds = 2;             // in the tests
  enum class Where : std::uint8_t { ANYWHERE, SHM_ONLY, TCP_ONLY } where = Where::ANYWHERE;
  Way way = Way::SHM;  // allRows() has one for each way that it is for
};

/// Those of one file each.
std::span<const Row> deathRows();     // F1–F5, F7, F8
std::span<const Row> delayRows();     // F6, F9–F11, F14
std::span<const Row> storeRows();     // F23–F28
std::span<const Row> resourceRows();  // F29–F33
std::span<const Row> processRows();   // F34–F36, F38, F39
std::span<const Row> misuseRows();    // F12, F13

/// All of them in all ways, in the order of their numbers.
std::vector<Row> allRows();

/// What came of a row.
struct Outcome {
  std::vector<double> tookMs;  // sorted
  int rounds = 0;
  std::string broken;   // what was not as promised; empty: nothing
  std::string skipped;  // why it cannot be shown here
};

/// From now on checkNothingLeft() sees all processes that this one's leave behind and, where that
/// is allowed, a /dev/shm that nobody else uses.
void watchWhatIsLeft();
/// Throws Broken if processes that were started and have ended have left something on the host.
/// Their own descriptors and mappings they count themselves: Crew::awaitEnd().
void checkNothingLeft();

/// Runs a row so many times, or until a promise is broken. Times are not judged here.
Outcome runRow(const Row& row, int rounds, std::uint64_t seed, bool thorough);

}  // namespace unisono::fault

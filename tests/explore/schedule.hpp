// Schedule: which of several things that can happen next does happen, at every point of a run.
//
// A run asks at each of its points. Only what differs from the usual answer is written down:
// "12>1 40!0 61~2" is a whole run: at point 12 rank 1 goes on, at 40 rank 0 is killed, at 61 a
// store of rank 2 is delayed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::explore {

/// One thing that can happen.
struct Option {
  enum Kind : char {
    GO_ON = '.',
    RUN = '>',    // another rank runs
    KILL = '!',   // the running rank never runs again
    DELAY = '~',  // what it stores is seen by others later
  };
  Kind kind = GO_ON;
  std::uint8_t rank = 0;
  std::uint8_t cost = 0;  // of the budget for unusual things
  bool wakes = false;     // ends a sleep before its time, while others could run

  bool isSame(const Option& other) const noexcept {
    return kind == other.kind && rank == other.rank;
  }
};

/// Chooses. The first option of a point is the usual one.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Whether it may choose anything unusual from here on; if not it is not asked any more.
  virtual bool isCurious() const = 0;
  virtual std::size_t choose(std::uint64_t point, std::span<const Option> options) = 0;
};

/// Always the usual.
class Usual final : public Strategy {
 public:
  bool isCurious() const override { return false; }
  std::size_t choose(std::uint64_t /*point*/, std::span<const Option> /*options*/) override {
    return 0;
  }
};

/// A run that was written down.
class Script final : public Strategy {
 public:
  /// Throws std::invalid_argument.
  explicit Script(std::string_view text);
  bool isCurious() const override { return true; }
  std::size_t choose(std::uint64_t point, std::span<const Option> options) override;

 private:
  std::map<std::uint64_t, Option> unusual_;
};

/// All runs with at most so many unusual things, one after the other.
class Exhaustive final : public Strategy {
 public:
  struct Bounds {
    int budget = 2;  // preemptions, early ends of sleeps, delayed stores
    int kills = 0;
  };
  explicit Exhaustive(Bounds bounds) : bounds_(bounds) { restart(); }

  bool isCurious() const override { return depth_ < path_.size() || budget_ > 0 || kills_ > 0; }
  std::size_t choose(std::uint64_t point, std::span<const Option> options) override;
  /// Turns to the next run; false when there is none.
  bool next();

 private:
  static constexpr std::size_t kMost = 24;
  struct Node {
    std::array<std::uint8_t, kMost> index;
    std::array<Option, kMost> option;
    std::size_t count = 0;
    std::size_t taken = 0;
  };
  void restart();
  void pay(const Option& option);

  const Bounds bounds_;
  std::vector<Node> path_;
  std::size_t depth_ = 0;
  int budget_ = 0;
  int kills_ = 0;
};

/// Chance: ranks have priorities, of which a few change on the way (probabilistic concurrency
/// testing), or every point throws a die.
class Chance final : public Strategy {
 public:
  /// `length`: about how many points a run has.
  Chance(std::uint64_t seed, std::uint64_t length, bool kills);
  bool isCurious() const override { return true; }
  std::size_t choose(std::uint64_t point, std::span<const Option> options) override;

 private:
  static constexpr std::size_t kRanks = 16;
  static constexpr std::size_t kChanges = 3;
  std::size_t byPriority(std::uint64_t point, std::span<const Option> options);
  std::size_t byDie(std::span<const Option> options);
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  std::mt19937_64 random_;
  const bool walks_;
  std::array<std::uint64_t, kRanks> priority_{};
  std::array<std::uint64_t, kChanges> change_{};
  std::uint64_t killAt_ = 0;
};

/// Appends one unusual thing to a written schedule.
void note(std::string& schedule, std::uint64_t point, const Option& option);

}  // namespace unisono::explore

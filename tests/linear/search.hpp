// Search: for an order of calls that have to do with each other, one call after the other, with a
// memory of the places that lead nowhere. What calls do, those know who derive from it.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "linear/checker.hpp"
#include "linear/lanes.hpp"

namespace unisono::linear {

class Search {
 public:
  virtual ~Search() = default;

  /// To be called once.
  Verdict run(std::size_t mostSteps);

 protected:
  Search(const std::vector<const Event*>& events, std::vector<Lane> lanes);

  /// Whether a look is answered as it would be now.
  virtual bool agrees(const Event& look) const = 0;
  /// Puts the next call of a lane in order. False, and nothing has happened, if that cannot be
  /// right.
  /// `way`: which of the things it may have done.
  virtual bool enter(std::size_t lane, std::size_t way) = 0;
  /// How many different things the next call of a lane may have done.
  virtual std::size_t ways(std::size_t /*lane*/) const { return 1; }
  /// Takes back the last call that was put in order.
  virtual void leave(std::size_t lane) = 0;
  virtual std::uint64_t hash() const = 0;
  /// The next call of this lane may come now. Told before every step.
  virtual void mayCome(std::size_t /*lane*/) {}
  /// Removes lanes, the most urgent first, that need not be tried beside the others.
  virtual void thin(std::vector<std::size_t>& /*lanes*/) const {}
  /// Whether looks that come at once, and lanes that are removed, may take the only order with
  /// them. Then a search that has come to a halt does without both now and then.
  virtual bool mayLose() const { return false; }
  /// An answer that no order can explain, for reasons that need no search.
  virtual const Event* impossible() const { return nullptr; }

  /// What else those should look at who read that there is no order.
  virtual std::string hint() const { return ""; }

  /// The call that ended first of those without a place, where the search has come furthest.
  const Event* furthest() const { return furthest_; }
  const std::vector<const Event*>& events() const { return events_; }
  const Lane& lane(std::size_t number) const { return lanes_[number]; }
  std::size_t laneCount() const { return lanes_.size(); }

 private:
  /// A place in the search: what may come next, and how much of that was tried.
  struct Choice {
    std::size_t lane;
    std::size_t way;
  };
  struct Place {
    std::vector<Choice> choices;
    std::size_t next = 0;
  };
  /// The hashes of what has its place and of the state. Two places that only look the same would
  /// hide an order once in 2^64 comparisons; an order that is found is one all the same.
  using Spot = std::pair<std::uint64_t, std::uint64_t>;
  struct SpotHash {
    std::size_t operator()(const Spot& spot) const { return spot.first ^ spot.second; }
  };

  Place look();
  void goBack(std::size_t most);
  bool take(const Choice& choice);
  void takeBack();
  void advance(std::size_t lane, bool forward);
  Verdict stuck() const;

  std::vector<Place> places_;
  const std::vector<const Event*> events_;
  std::vector<Lane> lanes_;
  std::uint64_t progress_ = 0;   // a hash of `done` of all lanes
  std::size_t unexplained_ = 0;  // answered calls without a place
  const Event* furthest_ = nullptr;
  SeededRng luck_{1};
  bool shuffles_ = false;  // the most urgent is not always tried first
  std::unordered_set<Spot, SpotHash> seen_;
};

/// For bits that should look like chance.
std::uint64_t mixed(std::uint64_t a, std::uint64_t b);

}  // namespace unisono::linear

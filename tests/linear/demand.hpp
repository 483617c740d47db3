// Demand: what the answers that are still to be explained ask of the values of now.
//
// Where every value is written once, an answer names the write that it saw. A value that somebody
// has yet to be told must not be overwritten, an appended piece that was seen has one place, and
// values of which nobody will be told anything are all alike. That leaves few orders to look at.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "linear/history.hpp"
#include "linear/model.hpp"

namespace unisono::linear {

class Demand {
 public:
  explicit Demand(const std::vector<const Event*>& events);

  /// An answer that no order can explain: it holds what nobody wrote.
  const Event* impossible() const { return impossible_; }

  /// Whether the values of all keys of `event` are written once, so that this knows about them.
  bool knows(const Event& event) const;

  /// `event` has its place in the order; and has it no longer.
  void met(const Event& event);
  void unmet(const Event& event);

  /// Whether `event`, already met, may lead from one state to the other without making an answer
  /// impossible that is still to come.
  bool allows(const Event& event, const State& before, const State& after) const;

  /// Makes what `event` touched alike in all states whose difference nobody will be told.
  void simplify(State& state, const Event& event) const;

 private:
  /// The values of one key. A value is a row of pieces: one that was set, the others appended.
  struct Values {
    bool plain = true;
    std::set<std::string> pieces;
    std::unordered_map<std::string, std::string> seen;  // pieces: the value up to their end
    std::unordered_map<std::string, int> left;  // values: answers to come that begin with them
    std::set<std::string> wanted;               // what calls without an answer compare with
  };

  void learnWrites(const Event& event);
  void learnAnswer(const Event& event);
  bool learnText(Values& values, const std::string& text);
  bool allowsKey(const Values& values, const Event& event, std::size_t place, const State& before,
                 const State& after) const;
  void count(const Event& event, int more);

  std::map<std::string, Values> keys_;
  const Event* impossible_ = nullptr;
};

}  // namespace unisono::linear

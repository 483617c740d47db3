// QueueSearch: the search for an order of calls on a queue into which every element went once.
//
// Pushes that overlapped may have gone in in any order, and only when the elements come out it is
// seen which one it was. To try all orders takes for ever; so the search decides how many pushes
// came before a call, and of each element only among which places it may be. An element that comes
// out takes its place; the others must still fit into what is left.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "linear/search.hpp"

namespace unisono::linear {

class QueueSearch : public Search {
 public:
  /// Whether all `events` are calls on one queue, and no element was pushed twice.
  static bool fits(const std::vector<const Event*>& events);

  explicit QueueSearch(const std::vector<const Event*>& events);

 private:
  static constexpr int kOpen = std::numeric_limits<int>::max();

  struct Element {
    const Event* push = nullptr;
    std::size_t lane = 0;
    std::int64_t end = kNever;  // of the push
    const Event* pop = nullptr;
  };
  /// An element in the queue. Places are counted from the first push of all.
  struct Held {
    std::size_t element;
    int first;  // the first place at which its push could have come
    int last;   // and the last; kOpen until another call is in order that began after its end
  };
  struct State {
    std::vector<Held> held;
    int in = 0;
    int out = 0;
    std::vector<int> first;  // by lanes: the first place for the push that is next; -1: not yet
  };

  bool agrees(const Event& look) const override;
  bool enter(std::size_t lane, std::size_t way) override;
  void leave(std::size_t lane) override;
  std::uint64_t hash() const override;
  void mayCome(std::size_t lane) override;
  std::size_t ways(std::size_t lane) const override;
  void thin(std::vector<std::size_t>& lanes) const override;
  /// A look closes places of elements, and which of them they have is not decided yet.
  bool mayLose() const override { return true; }
  const Event* impossible() const override { return impossible_; }

  bool push(State& state, std::size_t lane) const;
  bool pop(State& state, const Event& event, std::size_t way) const;
  std::vector<std::size_t> poppable(const State& state, const Event& pop) const;
  bool mayBeFirst(const State& state, const Held& held) const;
  bool isPossible(const State& state) const;
  void closePlaces(State& state, std::size_t lane) const;
  bool canWait(std::size_t lane, std::size_t other) const;
  std::int64_t popStart(const Element& element) const {
    return element.pop == nullptr ? freePop_ : element.pop->start;
  }

  std::vector<Element> elements_;
  std::unordered_map<std::string, std::size_t> byValue_;
  std::int64_t freePop_ = kNever;  // when the first pop without an answer began
  const Event* impossible_ = nullptr;
  State state_;
  std::vector<State> before_;  // each call
};

}  // namespace unisono::linear

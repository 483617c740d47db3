#include "linear/checker.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <unordered_set>
#include <vector>

#include "base/str.hpp"
#include "linear/model.hpp"

namespace unisono::linear {
namespace {

/// Which events have been put in order, one bit each.
using Chosen = std::vector<std::uint64_t>;

/// Where the search has been: events in order so far, and the state they led to.
struct Spot {
  Chosen chosen;
  State state;
  friend bool operator==(const Spot&, const Spot&) = default;
};

struct SpotHash {
  std::size_t operator()(const Spot& spot) const {
    std::size_t all = spot.state.hash();
    for (const std::uint64_t word : spot.chosen) {
      all = (all ^ word) * 0x9e3779b97f4a7c15U;
    }
    return all;
  }
};

/// The starts and ends of all calls in the order of time, as a list from which calls are lifted.
struct Node {
  const Event* event = nullptr;
  std::size_t number = 0;
  Node* match = nullptr;  // of a start: its end; of an end: null
  Node* before = nullptr;
  Node* after = nullptr;
};

class Search {
 public:
  Search(const std::vector<const Event*>& events, std::size_t mostSteps);

  Verdict run();

 private:
  static void lift(Node& start);
  static void putBack(Node& start);
  Verdict stuck(const Node& end) const;

  std::vector<std::unique_ptr<Node>> nodes_;
  Node head_;
  const std::size_t mostSteps_;
  std::size_t words_;
  std::size_t mustEnd_ = 0;  // calls whose answer is known, not yet in order
};

Search::Search(const std::vector<const Event*>& events, std::size_t mostSteps)
    : mostSteps_(mostSteps), words_((events.size() + 63) / 64) {
  struct Moment {
    std::int64_t time;
    bool isEnd;
    Node* node;
  };
  std::vector<Moment> moments;
  for (std::size_t i = 0; i < events.size(); ++i) {
    Node* start = nodes_.emplace_back(std::make_unique<Node>()).get();
    Node* end = nodes_.emplace_back(std::make_unique<Node>()).get();
    *start = {.event = events[i], .number = i, .match = end};
    *end = {.event = events[i], .number = i};
    moments.push_back({events[i]->start, false, start});
    moments.push_back({events[i]->known ? events[i]->end : kNever, true, end});
    mustEnd_ += events[i]->known ? 1 : 0;
  }
  // At one moment, starts come first: calls that touch may have happened in either order.
  std::stable_sort(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) {
    return std::pair(a.time, a.isEnd) < std::pair(b.time, b.isEnd);
  });
  Node* last = &head_;
  for (const Moment& moment : moments) {
    last->after = moment.node;
    moment.node->before = last;
    last = moment.node;
  }
}

void Search::lift(Node& start) {
  for (Node* node : {&start, start.match}) {
    node->before->after = node->after;
    if (node->after != nullptr) {
      node->after->before = node->before;
    }
  }
}

void Search::putBack(Node& start) {
  for (Node* node : {start.match, &start}) {
    node->before->after = node;
    if (node->after != nullptr) {
      node->after->before = node;
    }
  }
}

/// The calls that were open when the one that ends here found no place.
Verdict Search::stuck(const Node& end) const {
  Verdict verdict{.kind = Verdict::Kind::WRONG};
  std::vector<std::string> lines;
  for (const auto& node : nodes_) {
    const Event& event = *node->event;
    if (node->match != nullptr && event.start <= end.event->end && event.end >= end.event->start) {
      lines.push_back(describe(event));
    }
  }
  verdict.why = str("no order explains ", describe(*end.event), " among: ", join(lines, "; ", 12));
  return verdict;
}

Verdict Search::run() {
  struct Choice {
    Node* start;
    State before;
  };
  std::unordered_set<Spot, SpotHash> seen;
  std::vector<Choice> choices;
  Spot spot{.chosen = Chosen(words_), .state = {}};
  const Node* furthest = nullptr;
  std::size_t steps = 0;
  Node* node = head_.after;
  while (mustEnd_ > 0) {
    if (++steps > mostSteps_) {
      return {.kind = Verdict::Kind::TOO_LONG, .steps = steps, .why = "the search was given up"};
    }
    if (node != nullptr && node->match != nullptr) {  // a call that may come next
      State next = spot.state;
      Spot entered{.chosen = spot.chosen, .state = {}};
      entered.chosen[node->number / 64] |= std::uint64_t{1} << (node->number % 64);
      const bool agrees = step(next, *node->event);
      entered.state = std::move(next);
      if (agrees && seen.insert(entered).second) {
        choices.push_back({node, std::move(spot.state)});
        mustEnd_ -= node->event->known ? 1 : 0;
        spot = std::move(entered);
        lift(*node);
        node = head_.after;
      } else {
        node = node->after;
      }
      continue;
    }
    // An end (or nothing is left): what ends here must have come before, so go back.
    if (node != nullptr && node->event->known &&
        (furthest == nullptr || node->event->end > furthest->event->end)) {
      furthest = node;
    }
    if (choices.empty()) {
      Verdict verdict = stuck(*furthest);
      verdict.steps = steps;
      return verdict;
    }
    Node* last = choices.back().start;
    spot.state = std::move(choices.back().before);
    choices.pop_back();
    spot.chosen[last->number / 64] &= ~(std::uint64_t{1} << (last->number % 64));
    mustEnd_ += last->event->known ? 1 : 0;
    putBack(*last);
    node = last->after;
  }
  return {.steps = steps};
}

/// Events by the sets of keys that have nothing to do with each other.
std::vector<std::vector<const Event*>> parts(const History& history) {
  std::map<std::string, std::string> leader;
  const auto find = [&](std::string key) {
    for (leader.try_emplace(key, key); leader[key] != key; key = leader[key]) {}
    return key;
  };
  for (const Event& event : history) {
    const bool isQueue = event.op == Op::PUSH || event.op == Op::POP || event.op == Op::LENGTH;
    const std::string first = find((isQueue ? "queue " : "key ") + event.keys.front());
    for (const std::string& key : event.keys) {
      if (!isQueue) {
        leader[find("key " + key)] = first;
      }
    }
  }
  std::map<std::string, std::vector<const Event*>> groups;
  for (const Event& event : history) {
    const bool isQueue = event.op == Op::PUSH || event.op == Op::POP || event.op == Op::LENGTH;
    groups[find((isQueue ? "queue " : "key ") + event.keys.front())].push_back(&event);
  }
  std::vector<std::vector<const Event*>> all;
  for (auto& [name, events] : groups) {
    all.push_back(std::move(events));
  }
  return all;
}

/// Without the writes that nobody knows of and nobody saw: if there is an order without them, there
/// is one, and it is found much faster.
std::vector<const Event*> withoutUnseen(const std::vector<const Event*>& part) {
  std::string seen;
  for (const Event* event : part) {
    seen += join(event->texts, "\n", event->texts.size()) + "\n";
  }
  std::vector<const Event*> rest;
  std::copy_if(part.begin(), part.end(), std::back_inserter(rest), [&](const Event* event) {
    return event->known || event->values.empty() ||
           std::any_of(event->values.begin(), event->values.end(), [&](const std::string& value) {
             return !value.empty() && seen.find(value) != std::string::npos;
           });
  });
  return rest;
}

Verdict checkPart(const std::vector<const Event*>& part, std::size_t mostSteps) {
  const std::vector<const Event*> less = withoutUnseen(part);
  Verdict verdict = Search(less, mostSteps).run();
  if (verdict.isFine() || less.size() == part.size()) {
    return verdict;
  }
  Verdict all = Search(part, mostSteps).run();
  all.steps += verdict.steps;
  return all;
}

}  // namespace

Verdict check(const History& history, std::size_t mostSteps) {
  Verdict total;
  for (const std::vector<const Event*>& part : parts(history)) {
    Verdict verdict = checkPart(part, mostSteps);
    total.steps += verdict.steps;
    if (!verdict.isFine()) {
      verdict.steps = total.steps;
      return verdict;
    }
  }
  return total;
}

}  // namespace unisono::linear

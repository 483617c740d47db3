#include "linear/checker.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "linear/counts.hpp"
#include "linear/groups.hpp"
#include "linear/key_search.hpp"
#include "linear/queue_search.hpp"
#include "linear/queue_windows.hpp"

namespace unisono::linear {
namespace {

/// Events by the sets of keys that have nothing to do with each other.
std::vector<std::vector<const Event*>> parts(const History& history) {
  const Groups groups(history);
  std::map<std::string, std::vector<const Event*>> named;
  for (const Event& event : history) {
    named[groups.of(event)].push_back(&event);
  }
  std::vector<std::vector<const Event*>> all;
  for (auto& [name, events] : named) {
    all.push_back(std::move(events));
  }
  return all;
}

/// Calls on one queue. Wrong is no last word: the search leaves out orders for which it has others.
Verdict checkQueue(const std::vector<const Event*>& part, std::size_t mostSteps) {
  constexpr std::size_t kMostForAGuess = 500'000;  // a right one takes a few thousand
  Verdict verdict;
  std::size_t steps = 0;
  for (const Guess guess : {Guess::LOST_AND_NO_MORE, Guess::LOST, Guess::NOTHING}) {
    const std::vector<Event> calls = narrowed(part, guess);
    std::vector<const Event*> addresses;
    std::transform(calls.begin(), calls.end(), std::back_inserter(addresses),
                   [](const Event& event) { return &event; });
    verdict = QueueSearch(addresses).run(
        guess == Guess::NOTHING ? mostSteps : std::min(mostSteps, kMostForAGuess));
    steps += verdict.steps;
    verdict.steps = steps;
    if (verdict.isFine()) {
      break;
    }
  }
  return verdict;
}

Verdict checkPart(const std::vector<const Event*>& part, std::size_t mostSteps) {
  std::size_t steps = 0;
  if (QueueSearch::fits(part)) {
    const Verdict verdict = checkQueue(part, mostSteps);
    if (verdict.kind != Verdict::Kind::WRONG) {
      return verdict;
    }
    steps = verdict.steps;
  }
  Verdict verdict = KeySearch(part).run(mostSteps);
  verdict.steps += steps;
  return verdict;
}

}  // namespace

Verdict check(const History& history, std::size_t mostSteps) {
  Verdict total;
  const History apart = countedApart(history);
  for (const std::vector<const Event*>& part : parts(apart)) {
    Verdict verdict = checkPart(part, mostSteps);
    verdict.steps += total.steps;
    if (verdict.kind == Verdict::Kind::WRONG) {
      return verdict;
    }
    // One part may be undecided, and another one wrong all the same.
    if (total.isFine()) {
      total = std::move(verdict);
    } else {
      total.steps = verdict.steps;
    }
  }
  return total;
}

}  // namespace unisono::linear

#include "linear/queue_places.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>

namespace unisono::linear {
namespace {

using Moment = std::int64_t Placed::*;

/// Elements in an order, by their numbers.
std::vector<std::size_t> sorted(const std::vector<Placed>& elements, Moment by) {
  std::vector<std::size_t> numbers(elements.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  std::sort(numbers.begin(), numbers.end(),
            [&](std::size_t a, std::size_t b) { return elements[a].*by < elements[b].*by; });
  return numbers;
}

/// Takes places away that leave no room for those in front or behind. Whether any were taken.
bool narrow(std::vector<Placed>& elements, Moment start, Moment end,
            const std::vector<std::size_t>& byStart, const std::vector<std::size_t>& byEnd) {
  bool narrowed = false;
  const auto raise = [&](int& place, int to) {
    narrowed = narrowed || to > place;
    place = std::max(place, to);
  };
  auto ended = byEnd.begin();
  int front = std::numeric_limits<int>::min();  // the last `first` of those that are in front
  for (const std::size_t i : byStart) {
    for (; elements[*ended].*end < elements[i].*start; ++ended) {
      front = std::max(front, elements[*ended].first + 1);
    }
    raise(elements[i].first, front);
  }
  auto begun = byStart.rbegin();
  int back = std::numeric_limits<int>::max();  // the first `last` of those that are behind
  for (auto i = byEnd.rbegin(); i != byEnd.rend(); ++i) {
    for (; elements[*begun].*start > elements[*i].*end; ++begun) {
      back = std::min(back, elements[*begun].last - 1);
    }
    narrowed = narrowed || back < elements[*i].last;
    elements[*i].last = std::min(elements[*i].last, back);
  }
  return narrowed;
}

/// The same for those of one client.
bool narrowTurns(std::vector<Placed>& elements, const std::vector<std::size_t>& byTurn) {
  bool narrowed = false;
  for (std::size_t at = 1; at < byTurn.size(); ++at) {
    Placed& before = elements[byTurn[at - 1]];
    Placed& after = elements[byTurn[at]];
    if (before.client == after.client && before.client >= 0) {
      narrowed = narrowed || after.first <= before.first || before.last >= after.last;
      after.first = std::max(after.first, before.first + 1);
      before.last = std::min(before.last, after.last - 1);
    }
  }
  return narrowed;
}

}  // namespace

bool canPlaceAll(std::vector<Placed> elements, int from, int to) {
  for (Placed& element : elements) {
    element.first = std::max(element.first, from);
    element.last = std::min(element.last, to - 1);
  }
  const auto byPushStart = sorted(elements, &Placed::pushStart);
  const auto byPushEnd = sorted(elements, &Placed::pushEnd);
  const auto byPopStart = sorted(elements, &Placed::popStart);
  const auto byPopEnd = sorted(elements, &Placed::popEnd);
  auto byTurn = sorted(elements, &Placed::turn);
  std::stable_sort(byTurn.begin(), byTurn.end(), [&](std::size_t a, std::size_t b) {
    return elements[a].client < elements[b].client;
  });
  // Whoever is in a circle would be moved for ever; but soon there is no place left.
  for (bool narrowed = true; narrowed;) {
    narrowed = narrow(elements, &Placed::pushStart, &Placed::pushEnd, byPushStart, byPushEnd);
    narrowed |= narrow(elements, &Placed::popStart, &Placed::popEnd, byPopStart, byPopEnd);
    narrowed |= narrowTurns(elements, byTurn);
    if (std::any_of(elements.begin(), elements.end(),
                    [](const Placed& element) { return element.first > element.last; })) {
      return false;
    }
  }
  // At every place the one that can wait least: if all can be placed, this does it.
  std::sort(elements.begin(), elements.end(),
            [](const Placed& a, const Placed& b) { return a.first < b.first; });
  std::priority_queue<int, std::vector<int>, std::greater<>> lasts;
  auto next = elements.begin();
  for (int place = from; place < to; ++place) {
    for (; next != elements.end() && next->first <= place; ++next) {
      lasts.push(next->last);
    }
    if (lasts.empty() || lasts.top() < place) {
      return false;
    }
    lasts.pop();
  }
  return true;
}

}  // namespace unisono::linear

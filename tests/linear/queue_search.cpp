#include "linear/queue_search.hpp"

#include <algorithm>
#include <set>

#include "linear/model.hpp"
#include "linear/queue_places.hpp"

namespace unisono::linear {

bool QueueSearch::fits(const std::vector<const Event*>& events) {
  std::set<std::string> pushed;
  return std::all_of(events.begin(), events.end(), [&](const Event* event) {
    return isQueueOp(event->op) && event->keys == events.front()->keys &&
           (event->op != Op::PUSH || pushed.insert(event->values[0]).second);
  });
}

QueueSearch::QueueSearch(const std::vector<const Event*>& events)
    : Search(events, makeLanes(events, [](const Event&) { return true; })) {
  state_.first.assign(laneCount(), -1);
  for (std::size_t i = 0; i < laneCount(); ++i) {
    for (const Lane::Call& call : lane(i).calls) {
      if (call.event->op == Op::PUSH) {
        byValue_[call.event->values[0]] = elements_.size();
        elements_.push_back({.push = call.event, .lane = i, .end = call.end});
      }
    }
  }
  for (const Event* event : events) {
    if (event->op != Op::POP || (event->known && event->texts.empty())) {
      continue;
    }
    if (!event->known) {
      freePop_ = std::min(freePop_, event->start);
      continue;
    }
    const auto found = byValue_.find(event->texts[0]);
    if (found == byValue_.end() || elements_[found->second].pop != nullptr) {
      impossible_ = event;
    } else {
      elements_[found->second].pop = event;
    }
  }
}

bool QueueSearch::agrees(const Event& look) const {
  return look.op == Op::POP ? state_.in == state_.out : look.result == state_.in - state_.out;
}

void QueueSearch::mayCome(std::size_t lane) {
  if (state_.first[lane] < 0) {
    state_.first[lane] = state_.in;
  }
}

std::uint64_t QueueSearch::hash() const {
  // Places that have been passed make no difference any more.
  const auto since = [&](int place) {
    return static_cast<std::uint64_t>(std::max(place, state_.out));
  };
  std::uint64_t all = mixed(static_cast<std::uint64_t>(state_.in), since(state_.out));
  for (const Held& held : state_.held) {
    all ^= mixed(held.element, mixed(since(held.first), static_cast<std::uint64_t>(held.last)));
  }
  for (std::size_t i = 0; i < state_.first.size(); ++i) {
    if (state_.first[i] >= 0 && !lane(i).finished() && lane(i).head().event->op == Op::PUSH) {
      all ^= mixed(~i, since(state_.first[i]));
    }
  }
  return all;
}

/// Once a call is in order, what ended before it began went in before.
void QueueSearch::closePlaces(State& state, std::size_t lane) const {
  const std::int64_t start = this->lane(lane).head().start;
  for (Held& held : state.held) {
    const Element& element = elements_[held.element];
    if (held.last == kOpen &&
        (element.end < start || (element.lane == lane && this->lane(lane).answered))) {
      held.last = state.in - 1;
    }
  }
}

bool QueueSearch::push(State& state, std::size_t lane) const {
  const std::size_t number = byValue_.at(this->lane(lane).head().event->values[0]);
  const Event* pop = elements_[number].pop;
  const bool isLast = std::none_of(state.held.begin(), state.held.end(), [&](const Held& held) {
    return pop != nullptr && pop->end < popStart(elements_[held.element]);
  });
  state.held.push_back({number, state.first[lane], kOpen});
  ++state.in;
  return isLast || isPossible(state);  // at the end there is a place, unless others came out later
}

/// Whether it could have gone in before all others that are in the queue.
bool QueueSearch::mayBeFirst(const State& state, const Held& held) const {
  const Element& element = elements_[held.element];
  return held.first <= state.out && held.last >= state.out &&
         std::none_of(state.held.begin(), state.held.end(), [&](const Held& other) {
           const Element& one = elements_[other.element];
           return one.end < element.push->start ||
                  (one.lane == element.lane && one.push->known && other.element < held.element);
         });
}

/// Which of the elements in the queue the pop may have taken: the one that was told, or one that
/// nobody was told, those that have the most places left first.
std::vector<std::size_t> QueueSearch::poppable(const State& state, const Event& pop) const {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < state.held.size(); ++i) {
    const bool fits = elements_[state.held[i].element].pop == (pop.known ? &pop : nullptr);
    if (fits && mayBeFirst(state, state.held[i])) {
      all.push_back(i);
    }
  }
  std::stable_sort(all.begin(), all.end(), [&](std::size_t a, std::size_t b) {
    return state.held[a].last > state.held[b].last;
  });
  return all;
}

std::size_t QueueSearch::ways(std::size_t lane) const {
  const Event& event = *this->lane(lane).head().event;
  return event.op == Op::POP && !event.known ? poppable(state_, event).size() : 1;
}

bool QueueSearch::isPossible(const State& state) const {
  std::vector<Placed> all;
  for (const Held& held : state.held) {
    const Element& element = elements_[held.element];
    all.push_back({.first = held.first,
                   .last = held.last,
                   .pushStart = element.push->start,
                   .pushEnd = element.end,
                   .popStart = popStart(element),
                   .popEnd = element.pop == nullptr ? kNever : element.pop->end,
                   .client = element.push->known ? element.push->client : -1,
                   .turn = static_cast<std::int64_t>(held.element)});
  }
  return canPlaceAll(std::move(all), state.out, state.in);
}

bool QueueSearch::pop(State& state, const Event& event, std::size_t way) const {
  const std::vector<std::size_t> which = poppable(state, event);
  if (way >= which.size()) {
    return false;
  }
  state.held.erase(state.held.begin() + static_cast<std::ptrdiff_t>(which[way]));
  ++state.out;
  return isPossible(state);
}

bool QueueSearch::enter(std::size_t lane, std::size_t way) {
  const Event& event = *this->lane(lane).head().event;
  State next = state_;
  if (event.op != Op::PUSH) {  // how pushes follow each other, isPossible() knows
    closePlaces(next, lane);
  }
  if (event.op == Op::PUSH ? !push(next, lane) : !isLook(event) && !pop(next, event, way)) {
    return false;
  }
  next.first[lane] = -1;
  before_.push_back(std::exchange(state_, std::move(next)));
  return true;
}

void QueueSearch::leave(std::size_t /*lane*/) {
  state_ = std::move(before_.back());
  before_.pop_back();
}

/// Whether a push need not be tried before another one that may come, too: in every order that
/// begins with it the two can be exchanged, since nothing in between needs it and `other` ends and
/// comes out no later.
bool QueueSearch::canWait(std::size_t lane, std::size_t other) const {
  const Lane& mine = this->lane(lane);
  const Lane::Call& first = this->lane(other).head();
  const std::int64_t out = popStart(elements_[byValue_.at(mine.head().event->values[0])]);
  const std::int64_t otherOut = popStart(elements_[byValue_.at(first.event->values[0])]);
  const bool isLast = !mine.answered || mine.done + 1 == mine.calls.size();
  return first.end <= mine.head().end && first.end < out && otherOut <= out &&
         (isLast || mine.calls[mine.done + 1].start > first.end);
}

void QueueSearch::thin(std::vector<std::size_t>& lanes) const {
  const auto isPush = [&](std::size_t i) { return lane(i).head().event->op == Op::PUSH; };
  std::vector<std::size_t> rest;
  for (const std::size_t i : lanes) {
    if (!isPush(i) || std::none_of(rest.begin(), rest.end(), [&](std::size_t other) {
          return isPush(other) && canWait(i, other);
        })) {
      rest.push_back(i);
    }
  }
  lanes = std::move(rest);
}

}  // namespace unisono::linear

#include "linear/key_search.hpp"

#include <algorithm>

#include "base/str.hpp"

namespace unisono::linear {
namespace {

/// Whether two calls have a key in common.
bool stepsOn(const Event& one, const Event& other) {
  return std::any_of(one.keys.begin(), one.keys.end(), [&](const std::string& key) {
    return std::find(other.keys.begin(), other.keys.end(), key) != other.keys.end();
  });
}

}  // namespace

KeySearch::KeySearch(const std::vector<const Event*>& events) : KeySearch(events, Demand(events)) {}

KeySearch::KeySearch(const std::vector<const Event*>& events, Demand demand)
    : Search(events, makeLanes(events, [&](const Event& event) { return demand.knows(event); })),
      demand_(std::move(demand)) {}

bool KeySearch::enter(std::size_t lane, std::size_t /*way*/) {
  const Event& event = *this->lane(lane).head().event;
  State next = state_;
  if (!step(next, event)) {
    return false;
  }
  demand_.met(event);
  if (!demand_.allows(event, state_, next)) {
    demand_.unmet(event);
    if (refusedNear_ != furthest()) {
      refusedNear_ = furthest();
      refused_ = &event;
      refusedState_ = state_;
    }
    return false;
  }
  demand_.simplify(next, event);
  before_.push_back(std::exchange(state_, std::move(next)));
  return true;
}

void KeySearch::leave(std::size_t lane) {
  demand_.unmet(*this->lane(lane).head().event);
  state_ = std::move(before_.back());
  before_.pop_back();
}

std::string KeySearch::hint() const {
  std::vector<std::string> told;
  for (const Event* event :
       refusedNear_ == furthest() && refused_ != nullptr ? events() : std::vector<const Event*>()) {
    if (event->known && event->op == Op::GET && event->end > refused_->start &&
        stepsOn(*event, *refused_) && linear::agrees(refusedState_, *event)) {
      told.push_back(describe(*event));
    }
  }
  return told.empty() ? "" : str("; against: ", join(told, "; ", 4));
}

}  // namespace unisono::linear

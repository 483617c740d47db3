#include "linear/demand.hpp"

#include <algorithm>

namespace unisono::linear {
namespace {

/// Stands for every value of which nobody will be told anything.
const std::string kAnyValue(1, '\0');

/// The value that keys[place] must have had, or nothing if the answer does not say.
const std::string* told(const Event& event, std::size_t place) {
  if (!event.known) {
    return nullptr;
  }
  if (event.op == Op::GET) {
    return &event.texts[place];
  }
  if (event.op == Op::COMPARE_SET) {
    const std::string& expected = event.values[0];
    if (event.texts[0] == event.values[1]) {
      return expected.empty() ? nullptr : &expected;
    }
    return event.texts[0] == expected ? nullptr : &event.texts[0];  // nullptr: it was missing
  }
  return nullptr;
}

/// What the call writes to keys[place], if anything.
const std::string* written(const Event& event, std::size_t place) {
  switch (event.op) {
    case Op::SET:
      return &event.values[place];
    case Op::APPEND:
      return &event.values[0];
    case Op::COMPARE_SET:
      return &event.values[1];
    default:
      return nullptr;
  }
}

/// Whether a text made of the pieces can be cut into them in one way only.
bool cutsInOneWay(const std::set<std::string>& pieces) {
  return std::adjacent_find(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) {
           return b.starts_with(a);
         }) == pieces.end();
}

template <typename Function>
void forEachBeginning(const std::set<std::string>& pieces, const std::string& text,
                      const Function& function) {
  for (std::size_t end = 0; end < text.size();) {
    const auto after = pieces.upper_bound(text.substr(end));
    const std::string& piece = *std::prev(after);
    end += piece.size();
    function(piece, text.substr(0, end));
  }
}

}  // namespace

Demand::Demand(const std::vector<const Event*>& events) {
  for (const Event* event : events) {
    learnWrites(*event);
  }
  for (auto& [key, values] : keys_) {
    values.plain = values.plain && cutsInOneWay(values.pieces);
  }
  for (const Event* event : events) {
    learnAnswer(*event);
  }
}

void Demand::learnWrites(const Event& event) {
  if (isQueueOp(event.op)) {
    return;
  }
  for (std::size_t i = 0; i < event.keys.size(); ++i) {
    Values& values = keys_[event.keys[i]];
    if (const std::string* piece = written(event, i)) {
      values.plain = !piece->empty() && piece->front() != kAnyValue.front() &&
                     values.pieces.insert(*piece).second && values.plain;
    }
  }
  Values& values = keys_[event.keys[0]];
  values.plain = values.plain && event.op != Op::ADD && event.op != Op::ARRIVE;
  if (event.op == Op::COMPARE_SET) {
    values.plain = values.plain && event.values[0] != event.values[1];
    if (!event.known) {
      values.wanted.insert(event.values[0]);
    }
  }
}

/// False if nobody wrote that, or another answer has a piece of it in another place.
bool Demand::learnText(Values& values, const std::string& text) {
  for (std::size_t end = 0; end < text.size();) {
    const std::string rest = text.substr(end);
    const auto after = values.pieces.upper_bound(rest);
    if (after == values.pieces.begin() || !rest.starts_with(*std::prev(after))) {
      return false;
    }
    const std::string& piece = *std::prev(after);
    end += piece.size();
    const std::string value = text.substr(0, end);
    if (values.seen.try_emplace(piece, value).first->second != value) {
      return false;
    }
    ++values.left[value];
  }
  return !text.empty();
}

void Demand::learnAnswer(const Event& event) {
  bool possible = true;
  if (!isQueueOp(event.op)) {
    for (std::size_t i = 0; i < event.keys.size(); ++i) {
      Values& values = keys_[event.keys[i]];
      const std::string* text = told(event, i);
      possible = possible && (text == nullptr || !values.plain || learnText(values, *text));
    }
  }
  if (!possible && impossible_ == nullptr) {
    impossible_ = &event;
  }
}

bool Demand::knows(const Event& event) const {
  return !isQueueOp(event.op) &&
         std::all_of(event.keys.begin(), event.keys.end(),
                     [&](const std::string& key) { return keys_.at(key).plain; });
}

void Demand::count(const Event& event, int more) {
  if (isQueueOp(event.op)) {
    return;
  }
  for (std::size_t i = 0; i < event.keys.size(); ++i) {
    const std::string* text = told(event, i);
    Values& values = keys_.at(event.keys[i]);
    if (text != nullptr && values.plain) {
      forEachBeginning(values.pieces, *text, [&](const std::string&, const std::string& value) {
        values.left.at(value) += more;
      });
    }
  }
}

void Demand::met(const Event& event) {
  count(event, -1);
}

void Demand::unmet(const Event& event) {
  count(event, 1);
}

bool Demand::allowsKey(const Values& values, const Event& event, std::size_t place,
                       const State& before, const State& after) const {
  const auto was = before.values.find(event.keys[place]);
  const auto is = after.values.find(event.keys[place]);
  const bool isThere = is != after.values.end();
  if (was != before.values.end() && (!isThere || is->second != was->second)) {
    const auto left = values.left.find(was->second);
    if (left != values.left.end() && left->second > 0) {
      // Somebody has yet to be told this value, or one that begins with it.
      const auto next = isThere ? values.left.find(is->second) : values.left.end();
      if (next == values.left.end() || next->second != left->second ||
          !is->second.starts_with(was->second)) {
        return false;
      }
    }
  }
  const std::string* piece = written(event, place);
  if (piece == nullptr || !isThere || !is->second.ends_with(*piece)) {
    return true;
  }
  const auto seen = values.seen.find(*piece);
  return seen == values.seen.end() || seen->second == is->second;
}

bool Demand::allows(const Event& event, const State& before, const State& after) const {
  for (std::size_t i = 0; i < event.keys.size() && !isQueueOp(event.op); ++i) {
    const Values& values = keys_.at(event.keys[i]);
    if (values.plain && !allowsKey(values, event, i, before, after)) {
      return false;
    }
  }
  return true;
}

void Demand::simplify(State& state, const Event& event) const {
  if (isQueueOp(event.op)) {
    return;
  }
  for (const std::string& key : event.keys) {
    const Values& values = keys_.at(key);
    const auto found = state.values.find(key);
    if (!values.plain || found == state.values.end()) {
      continue;
    }
    const auto left = values.left.find(found->second);
    const auto wanted = values.wanted.lower_bound(found->second);
    if ((left == values.left.end() || left->second == 0) &&
        (wanted == values.wanted.end() || !wanted->starts_with(found->second))) {
      found->second = kAnyValue;
    }
  }
}

}  // namespace unisono::linear

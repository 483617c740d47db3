#include "linear/model.hpp"

#include <algorithm>
#include <charconv>

#include "base/str.hpp"

namespace unisono::linear {
namespace {

std::int64_t numberOf(const std::string& text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

bool allExist(const State& state, const Event& event) {
  return std::all_of(event.keys.begin(), event.keys.end(),
                     [&](const std::string& key) { return state.values.contains(key); });
}

bool stepAdd(State& state, const Event& event) {
  std::string& value = state.values[event.keys[0]];
  const std::int64_t sum = numberOf(value) + event.number;
  value = std::to_string(sum);
  return !event.known || event.result == sum;
}

/// As c10d has it: of a key that is missing, `expected` itself comes back unless it is empty.
bool stepCompareSet(State& state, const Event& event) {
  const std::string& expected = event.values[0];
  const std::string& desired = event.values[1];
  const auto found = state.values.find(event.keys[0]);
  std::string told;
  if (found == state.values.end() && !expected.empty()) {
    told = expected;
  } else if (found == state.values.end() || found->second == expected) {
    state.values[event.keys[0]] = desired;
    told = desired;
  } else {
    told = found->second;
  }
  return !event.known || event.texts[0] == told;
}

bool stepGet(const State& state, const Event& event) {
  if (!event.known) {
    return true;
  }
  if (!allExist(state, event)) {
    return false;
  }
  for (std::size_t i = 0; i < event.keys.size(); ++i) {
    if (state.values.at(event.keys[i]) != event.texts[i]) {
      return false;
    }
  }
  return true;
}

/// One whose answer is not known may have taken an element, or found none.
bool stepPop(State& state, const Event& event) {
  const auto found = state.queues.find(event.keys[0]);
  if (found == state.queues.end()) {
    return !event.known || event.texts.empty();
  }
  const std::string element = found->second.front();
  found->second.pop_front();
  if (found->second.empty()) {
    state.queues.erase(found);
  }
  return !event.known || (!event.texts.empty() && event.texts[0] == element);
}

bool stepLength(const State& state, const Event& event) {
  const auto found = state.queues.find(event.keys[0]);
  const std::size_t length = found == state.queues.end() ? 0 : found->second.size();
  return !event.known || event.result == static_cast<std::int64_t>(length);
}

std::int64_t countOf(const State& state, const Event& event) {
  return std::count_if(event.keys.begin(), event.keys.end(),
                       [&](const std::string& key) { return state.values.contains(key); });
}

bool isReached(const State& state, const Event& event) {
  const auto found = state.values.find(event.keys[0]);
  return found != state.values.end() && numberOf(found->second) >= event.number;
}

bool isListed(const State& state, const Event& event) {
  return countOf(state, event) == static_cast<std::int64_t>(event.texts.size()) &&
         std::adjacent_find(event.texts.begin(), event.texts.end()) == event.texts.end() &&
         std::all_of(event.texts.begin(), event.texts.end(),
                     [&](const std::string& key) { return state.values.contains(key); });
}

}  // namespace

std::size_t State::hash() const {
  std::size_t all = 0;
  const auto mix = [&](std::string_view text) {
    all = (all ^ std::hash<std::string_view>{}(text)) * 0x9e3779b97f4a7c15U;
  };
  for (const auto& [key, value] : values) {
    mix(key);
    mix(value);
  }
  for (const auto& [name, queue] : queues) {
    mix(name);
    std::for_each(queue.begin(), queue.end(), mix);
  }
  return all;
}

bool step(State& state, const Event& event) {
  switch (event.op) {
    case Op::SET:
      for (std::size_t i = 0; i < event.keys.size(); ++i) {
        state.values[event.keys[i]] = event.values[i];
      }
      return true;
    case Op::GET:
      return stepGet(state, event);
    case Op::ADD:
      return stepAdd(state, event);
    case Op::COMPARE_SET:
      return stepCompareSet(state, event);
    case Op::CHECK:
    case Op::WAIT:
      return !event.known || (event.result != 0) == allExist(state, event);
    case Op::DELETE: {
      const bool was = state.values.erase(event.keys[0]) > 0;
      return !event.known || (event.result != 0) == was;
    }
    case Op::CLEAR:
      state.values.erase(event.keys[0]);
      return true;
    case Op::APPEND:
      state.values[event.keys[0]] += event.values[0];
      return true;
    case Op::PUSH:
      state.queues[event.keys[0]].push_back(event.values[0]);
      return true;
    case Op::POP:
      return stepPop(state, event);
    case Op::LENGTH:
      return stepLength(state, event);
    case Op::ARRIVE: {
      std::string& value = state.values[event.keys[0]];
      value = std::to_string(numberOf(value) + 1);
      return true;
    }
    case Op::REACHED:
    case Op::COUNT:
    case Op::LIST:
      return !event.known || agrees(state, event);
  }
  return false;
}

bool isLook(const Event& event) {
  switch (event.op) {
    case Op::GET:
    case Op::CHECK:
    case Op::WAIT:
    case Op::LENGTH:
    case Op::REACHED:
    case Op::COUNT:
    case Op::LIST:
      return true;
    case Op::DELETE:
      return event.known && event.result == 0;
    case Op::POP:
      return event.known && event.texts.empty();
    case Op::COMPARE_SET:
      return event.known && event.texts[0] != event.values[1];
    default:
      return false;
  }
}

bool agrees(const State& state, const Event& look) {
  switch (look.op) {
    case Op::GET:
      return stepGet(state, look);
    case Op::CHECK:
    case Op::WAIT:
      return (look.result != 0) == allExist(state, look);
    case Op::LENGTH:
      return stepLength(state, look);
    case Op::DELETE:
      return !state.values.contains(look.keys[0]);
    case Op::POP:
      return !state.queues.contains(look.keys[0]);
    case Op::COMPARE_SET: {
      const auto found = state.values.find(look.keys[0]);
      return found == state.values.end()
                 ? look.texts[0] == look.values[0] && !look.values[0].empty()
                 : look.texts[0] == found->second && found->second != look.values[0];
    }
    case Op::REACHED:
      return isReached(state, look);
    case Op::COUNT:
      return look.result <= countOf(state, look) && countOf(state, look) <= look.number;
    case Op::LIST:
      return isListed(state, look);
    default:
      return false;
  }
}

std::string_view nameOf(Op op) {
  switch (op) {
    case Op::SET:
      return "set";
    case Op::GET:
      return "get";
    case Op::ADD:
      return "add";
    case Op::COMPARE_SET:
      return "compare_set";
    case Op::CHECK:
      return "check";
    case Op::WAIT:
      return "wait";
    case Op::DELETE:
      return "delete";
    case Op::CLEAR:
      return "clear";
    case Op::APPEND:
      return "append";
    case Op::PUSH:
      return "push";
    case Op::POP:
      return "pop";
    case Op::LENGTH:
      return "length";
    case Op::ARRIVE:
      return "arrive";
    case Op::REACHED:
      return "reached";
    case Op::COUNT:
      return "count";
    case Op::LIST:
      return "list";
  }
  return "?";
}

std::string describe(const Event& event) {
  const bool hasAmount = event.op == Op::ADD || event.op == Op::REACHED;
  const std::string amount = hasAmount ? str(", ", event.number) : "";
  const std::string values = event.values.empty() ? "" : str(", ", join(event.values, ", "));
  const std::string told = !event.known            ? "?"
                           : !event.texts.empty()  ? join(event.texts, ", ")
                           : event.op == Op::LIST  ? "nothing"
                           : event.op == Op::COUNT ? str(event.result, " to ", event.number)
                                                   : str(event.result);
  const std::string end = event.end == kNever ? "never" : str(event.end);
  return str("client ", event.client, ": ", nameOf(event.op), "(", join(event.keys, ", "), values,
             amount, ") = ", told, " [", event.start, ", ", end, "]");
}

}  // namespace unisono::linear

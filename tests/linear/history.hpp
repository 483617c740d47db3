// History: what clients asked of a store and what they were told, with the times of both.
#pragma once

#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::linear {

enum class Op : std::uint8_t {
  SET,          // keys and values alike: one or several at once
  GET,          // returned the values of `keys`, all of which existed at that moment
  ADD,          // `number` to keys[0]; the sum came back
  COMPARE_SET,  // values: expected, desired; the value then came back
  CHECK,        // whether all `keys` existed
  WAIT,         // the same: whether it ended, at a moment when they did, or not when it came
  DELETE,       // whether keys[0] was there
  CLEAR,        // keys[0] is there no longer, and nobody was told whether it was
  APPEND,
  PUSH,
  POP,      // the element that came back, or nothing: the queue was empty
  LENGTH,   // of the queue keys[0]
  ARRIVE,   // counts one more at keys[0]; the count does not come back
  REACHED,  // at least `number` had arrived at keys[0]
  COUNT,    // how many of `keys` there were, all that anybody sets: from `result` to `number`
  LIST,     // which of them there were, each once and sorted
};

std::string_view nameOf(Op op);

/// Queues have names of their own: one may be called like a key.
constexpr bool isQueueOp(Op op) {
  return op == Op::PUSH || op == Op::POP || op == Op::LENGTH;
}

/// Calls that are about every key that there is.
constexpr bool isAboutAll(Op op) {
  return op == Op::COUNT || op == Op::LIST;
}

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// One call. Without an answer (`known` false) it may have happened at any time after its start,
/// or not at all. Calls of one client that were answered happened in the order of their starts,
/// also those that it did not wait for.
struct Event {
  int client = 0;
  Op op = Op::SET;
  std::vector<std::string> keys;
  std::vector<std::string> values;
  std::int64_t number = 0;

  bool known = false;
  std::vector<std::string> texts;  // what came back, as far as it is text
  std::int64_t result = 0;         // or a number, or 0 and 1

  std::int64_t start = 0;
  std::int64_t end = kNever;
};

/// Until when it may take effect: of a write that nobody confirmed, long after it has returned.
inline std::int64_t lastMoment(const Event& event) {
  return event.known ? event.end : kNever;
}

/// "client 3: add(a, 1) = 5 [17, 23]"
std::string describe(const Event& event);

using History = std::vector<Event>;

}  // namespace unisono::linear

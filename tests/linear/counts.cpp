#include "linear/counts.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "linear/groups.hpp"

namespace unisono::linear {
namespace {

struct Window {
  std::int64_t start;
  std::int64_t end;
};
using Windows = std::vector<Window>;

/// Of one key: calls after which it was there or not, and calls that may have changed that.
struct Traces {
  Windows there;
  Windows gone = {{std::numeric_limits<std::int64_t>::min(),  // in the beginning
                   std::numeric_limits<std::int64_t>::min()}};
  Windows makers;
  Windows removers;
};

/// Whether something was so before `window` that nothing of `changers` can have changed by its end.
bool holds(const Windows& evidence, const Windows& changers, const Window& window) {
  std::optional<std::int64_t> since;
  for (const Window& one : evidence) {
    if (one.end < window.start) {
      since = std::max(since.value_or(one.start), one.start);
    }
  }
  return since && std::none_of(changers.begin(), changers.end(), [&](const Window& one) {
           return one.start <= window.end && one.end >= *since;
         });
}

/// Whether a call that compares and sets has stored, or told another value than it expected.
bool foundOrStored(const Event& event) {
  return event.texts[0] == event.values[1] || event.texts[0] != event.values[0];
}

class Presence {
 public:
  explicit Presence(const History& history) {
    for (const Event& event : history) {
      if (!isQueueOp(event.op)) {
        learn(event);
      }
    }
  }

  /// How many of `keys` were there at some moment of `window`, at least and at most.
  std::pair<std::int64_t, std::int64_t> count(const std::vector<std::string>& keys,
                                              const Window& window) const {
    std::int64_t least = 0;
    auto most = static_cast<std::int64_t>(keys.size());
    for (const std::string& key : keys) {
      const auto found = keys_.find(key);
      const Traces& traces = found == keys_.end() ? nothing_ : found->second;
      least += holds(traces.there, traces.removers, window) ? 1 : 0;
      most -= holds(traces.gone, traces.makers, window) ? 1 : 0;
    }
    return {least, most};
  }

 private:
  void learn(const Event& event) {
    const Window window{event.start, lastMoment(event)};
    for (const std::string& key : event.keys) {
      Traces& traces = keys_[key];
      if (mayMake(event)) {
        traces.makers.push_back(window);
      }
      if (mayRemove(event)) {
        traces.removers.push_back(window);
      }
      const std::optional<bool> left = event.known ? leaves(event, key) : std::nullopt;
      if (left) {
        (*left ? traces.there : traces.gone).push_back(window);
      }
    }
  }

  static bool mayMake(const Event& event) {
    switch (event.op) {
      case Op::SET:
      case Op::ADD:
      case Op::APPEND:
      case Op::ARRIVE:
        return true;
      case Op::COMPARE_SET:
        return !event.known || event.texts[0] == event.values[1];
      default:
        return false;
    }
  }

  static bool mayRemove(const Event& event) {
    return event.op == Op::CLEAR || (event.op == Op::DELETE && !(event.known && event.result == 0));
  }

  /// Whether `key` was there after the call, if its answer says so.
  static std::optional<bool> leaves(const Event& event, const std::string& key) {
    switch (event.op) {
      case Op::SET:
      case Op::ADD:
      case Op::APPEND:
      case Op::ARRIVE:
      case Op::GET:
        return true;
      case Op::DELETE:
      case Op::CLEAR:
        return false;
      case Op::COMPARE_SET:
        return foundOrStored(event) ? std::optional(true) : std::nullopt;
      case Op::CHECK:
      case Op::WAIT:
        return event.result != 0        ? std::optional(true)
               : event.keys.size() == 1 ? std::optional(false)
                                        : std::nullopt;
      case Op::LIST:
        return std::find(event.texts.begin(), event.texts.end(), key) != event.texts.end();
      default:
        return std::nullopt;
    }
  }

  std::map<std::string, Traces> keys_;
  const Traces nothing_;
};

bool contains(const std::vector<std::string>& keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// What a list says about the group that has `keys`. A key that nobody sets is in no group, and
/// wrong in all.
Event listOf(const Event& event, const std::vector<std::string>& keys) {
  Event one = event;
  one.keys = keys;
  std::erase_if(one.texts, [&](const std::string& text) {
    return !contains(keys, text) && contains(event.keys, text);
  });
  return one;
}

/// The same for a number.
Event countOf(const Event& event, const std::vector<std::string>& keys, const Presence& presence) {
  std::vector<std::string> others;
  std::copy_if(event.keys.begin(), event.keys.end(), std::back_inserter(others),
               [&](const std::string& key) { return !contains(keys, key); });
  const auto [least, most] = presence.count(others, {event.start, event.end});
  Event one = event;
  one.keys = keys;
  one.result = event.result - most;
  one.number = event.number - least;
  return one;
}

bool saysNothing(const Event& event) {
  return event.op == Op::COUNT && event.result <= 0 &&
         event.number >= static_cast<std::int64_t>(event.keys.size());
}

}  // namespace

History countedApart(const History& history) {
  if (std::none_of(history.begin(), history.end(),
                   [](const Event& event) { return isAboutAll(event.op); })) {
    return history;
  }
  const Groups groups(history);
  const Presence presence(history);
  History all;
  for (const Event& event : history) {
    if (!isAboutAll(event.op)) {
      all.push_back(event);
      continue;
    }
    std::map<std::string, std::vector<std::string>> keysOf;
    for (const std::string& key : event.keys) {
      keysOf[groups.ofKey(key)].push_back(key);
    }
    for (const auto& [group, keys] : keysOf) {
      const Event one = event.op == Op::LIST ? listOf(event, keys) : countOf(event, keys, presence);
      if (event.known && !saysNothing(one)) {
        all.push_back(one);
      }
    }
  }
  return all;
}

}  // namespace unisono::linear

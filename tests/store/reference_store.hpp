// ReferenceStore: what a store is to do, written as naively as possible.
//
// Everything is looked up and looked through again on every call. The random tests compare
// KvTable and the server with it; it knows no limits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace unisono::test {

class ReferenceStore {
 public:
  enum class Kind : std::uint8_t { VALUES, PRESENCE, POLITE, POP, BARRIER };

  struct Ended {
    std::uint64_t id;
    std::optional<std::string> element;
    std::optional<std::string> queue;
    friend bool operator==(const Ended&, const Ended&) = default;
  };

  void set(const std::string& key, const std::string& value) {
    values_[key] = value;
    endSatisfied(key, false);
  }
  void append(const std::string& key, const std::string& value) { set(key, values_[key] + value); }
  void multiSet(const std::vector<std::pair<std::string, std::string>>& pairs) {
    for (const auto& [key, value] : pairs) {
      set(key, value);
    }
  }

  /// None when the value is no number, or something does not fit.
  std::optional<std::int64_t> add(const std::string& key, std::int64_t delta) {
    const std::string stored = get(key).value_or("");
    std::int64_t sum = 0;
    try {
      const std::int64_t old = stored.empty() ? 0 : std::stoll(stored);
      if (__builtin_add_overflow(old, delta, &sum)) {
        return std::nullopt;
      }
    } catch (const std::logic_error&) {  // invalid_argument and out_of_range
      return std::nullopt;
    }
    set(key, std::to_string(sum));
    return sum;
  }

  struct Compared {
    int outcome;  // 0 stored, 1 different, 2 missing
    std::string value;
    friend bool operator==(const Compared&, const Compared&) = default;
  };
  Compared compareSet(const std::string& key, const std::string& expected,
                      const std::string& desired) {
    const std::optional<std::string> current = get(key);
    if (!current && !expected.empty()) {
      return {2, expected};
    }
    if (current && *current != expected) {
      return {1, *current};
    }
    set(key, desired);
    return {0, desired};
  }

  std::optional<std::string> get(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  bool remove(const std::string& key) { return values_.erase(key) == 1; }
  std::int64_t removePrefix(const std::string& prefix) {
    return static_cast<std::int64_t>(
        std::erase_if(values_, [&](const auto& pair) { return pair.first.starts_with(prefix); }));
  }
  const std::map<std::string, std::string>& values() const { return values_; }

  void push(const std::string& name, const std::string& element) {
    for (const Wait& wait : waits_) {
      if (wait.kind == Kind::POP && wait.names.contains(name)) {
        end(wait.id, {wait.id, element, std::nullopt});
        return;
      }
    }
    queues_[name].push_back(element);
    endSatisfied(name, true);
  }
  std::optional<std::string> pop(const std::string& name) {
    const auto found = queues_.find(name);
    if (found == queues_.end()) {
      return std::nullopt;
    }
    std::string element = found->second.front();
    found->second.pop_front();
    if (found->second.empty()) {
      queues_.erase(found);
    }
    return element;
  }
  std::size_t queueLength(const std::string& name) const {
    const auto found = queues_.find(name);
    return found == queues_.end() ? 0 : found->second.size();
  }
  const std::map<std::string, std::deque<std::string>>& queues() const { return queues_; }

  bool present(const std::string& name) const {
    return values_.contains(name) || queues_.contains(name);
  }
  bool allPresent(const std::vector<std::string>& names) const {
    return std::all_of(names.begin(), names.end(),
                       [this](const std::string& name) { return present(name); });
  }

  /// True when satisfied now; otherwise `id` waits.
  bool wait(std::uint64_t id, const std::vector<std::string>& names, Kind kind) {
    cancelWait(id);
    const Wait wait{id, kind, {names.begin(), names.end()}, 0};
    if (satisfied(wait)) {
      return true;
    }
    waits_.push_back(wait);
    return false;
  }
  std::optional<std::string> popOrWait(std::uint64_t id, const std::string& name) {
    cancelWait(id);
    std::optional<std::string> element = pop(name);
    if (!element) {
      waits_.push_back({id, Kind::POP, {name}, 0});
    }
    return element;
  }
  /// None when refused; else whether all have arrived.
  std::optional<bool> arrive(std::uint64_t id, const std::string& key, std::int64_t worldSize) {
    cancelWait(id);
    const std::optional<std::int64_t> count = add(key, 1);
    if (!count) {
      return std::nullopt;
    }
    const std::vector<Wait> before = waits_;
    for (const Wait& wait : before) {
      if (wait.kind == Kind::BARRIER && wait.names.contains(key) && wait.worldSize <= *count) {
        end(wait.id, {wait.id, std::nullopt, std::nullopt});
      }
    }
    if (*count >= worldSize) {
      return true;
    }
    waits_.push_back({id, Kind::BARRIER, {key}, worldSize});
    return false;
  }
  void cancelWait(std::uint64_t id) {
    std::erase_if(waits_, [&](const Wait& wait) { return wait.id == id; });
  }
  void passOn(const std::string& name) {
    if (queueLength(name) > 0) {
      endSatisfied(name, true);
    }
  }
  std::size_t waitCount() const { return waits_.size(); }

  std::vector<Ended> takeEnded() { return std::exchange(ended_, {}); }

 private:
  struct Wait {
    std::uint64_t id;
    Kind kind;
    std::set<std::string> names;
    std::int64_t worldSize;
  };

  bool satisfied(const Wait& wait) const {
    return std::all_of(wait.names.begin(), wait.names.end(), [&](const std::string& name) {
      return wait.kind == Kind::VALUES ? values_.contains(name) : present(name);
    });
  }

  /// Ends what is satisfied after a change of `name`, oldest first; of the polite ones a push
  /// ends one.
  void endSatisfied(const std::string& name, bool pushed) {
    bool politeEnded = false;
    const std::vector<Wait> before = waits_;
    for (const Wait& wait : before) {
      const bool looks =
          wait.kind == Kind::VALUES || wait.kind == Kind::PRESENCE || wait.kind == Kind::POLITE;
      const bool polite = pushed && wait.kind == Kind::POLITE;
      if (!looks || !wait.names.contains(name) || !satisfied(wait) || (polite && politeEnded)) {
        continue;
      }
      politeEnded = politeEnded || polite;
      end(wait.id, {wait.id, std::nullopt, polite ? std::optional(name) : std::nullopt});
    }
  }

  void end(std::uint64_t id, Ended how) {
    ended_.push_back(std::move(how));
    cancelWait(id);
  }

  std::map<std::string, std::string> values_;
  std::map<std::string, std::deque<std::string>> queues_;  // none of them empty
  std::vector<Wait> waits_;                                // oldest first
  std::vector<Ended> ended_;
};

}  // namespace unisono::test

#include "explore/schedule.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace unisono::explore {

void note(std::string& schedule, std::uint64_t point, const Option& option) {
  schedule += schedule.empty() ? "" : " ";
  schedule += std::to_string(point);
  schedule += static_cast<char>(option.kind);
  schedule += std::to_string(option.rank);
}

// --- Script ---

Script::Script(std::string_view text) {
  std::istringstream in{std::string(text)};
  for (std::string word; in >> word;) {
    std::istringstream parts(word);
    std::uint64_t point = 0;
    char kind = 0;
    int rank = 0;
    if (!(parts >> point >> kind >> rank) ||
        std::string_view(">!~").find(kind) == std::string::npos) {
      throw std::invalid_argument("no schedule: " + word);
    }
    unusual_[point] = {static_cast<Option::Kind>(kind), static_cast<std::uint8_t>(rank), 0};
  }
}

std::size_t Script::choose(std::uint64_t point, std::span<const Option> options) {
  const auto found = unusual_.find(point);
  if (found == unusual_.end()) {
    return 0;
  }
  const auto option = std::find_if(options.begin(), options.end(),
                                   [&](const Option& each) { return each.isSame(found->second); });
  return option == options.end() ? 0 : static_cast<std::size_t>(option - options.begin());
}

// --- Exhaustive ---

void Exhaustive::restart() {
  depth_ = 0;
  budget_ = bounds_.budget;
  kills_ = bounds_.kills;
}

void Exhaustive::pay(const Option& option) {
  budget_ -= option.cost;
  kills_ -= option.kind == Option::KILL ? 1 : 0;
}

std::size_t Exhaustive::choose(std::uint64_t /*point*/, std::span<const Option> options) {
  Node node;
  for (std::size_t i = 0; i < options.size() && node.count < kMost; ++i) {
    const bool affordable =
        options[i].kind == Option::KILL ? kills_ > 0 : options[i].cost <= budget_;
    if (i == 0 || affordable) {
      node.index[node.count] = static_cast<std::uint8_t>(i);
      node.option[node.count] = options[i];
      ++node.count;
    }
  }
  if (node.count == 1) {
    return 0;  // no choice: not remembered, since it will be none again
  }
  if (depth_ == path_.size()) {
    path_.push_back(node);
  } else if (node.count != path_[depth_].count || !node.option[0].isSame(path_[depth_].option[0])) {
    throw std::logic_error("the run does not repeat itself");
  }
  const Node& here = path_[depth_++];
  pay(here.option[here.taken]);
  return here.index[here.taken];
}

bool Exhaustive::next() {
  while (!path_.empty() && path_.back().taken + 1 == path_.back().count) {
    path_.pop_back();
  }
  restart();
  if (path_.empty()) {
    return false;
  }
  ++path_.back().taken;
  return true;
}

// --- Chance ---

Chance::Chance(std::uint64_t seed, std::uint64_t length, bool kills)
    : random_(seed), walks_(seed % 2 == 0) {
  for (std::uint64_t& priority : priority_) {
    priority = random_() | (std::uint64_t{1} << 63U);
  }
  for (std::uint64_t& change : change_) {
    change = below(length + 1);
  }
  killAt_ = kills && below(2) == 0 ? below(length + 1) : ~std::uint64_t{0};
}

std::size_t Chance::choose(std::uint64_t point, std::span<const Option> options) {
  for (std::size_t i = 1; i < options.size(); ++i) {
    if (options[i].kind == Option::KILL && point >= killAt_) {
      killAt_ = ~std::uint64_t{0};
      return i;
    }
    if (options[i].kind == Option::DELAY && below(4) == 0) {
      return i;
    }
  }
  return walks_ ? byDie(options) : byPriority(point, options);
}

std::size_t Chance::byDie(std::span<const Option> options) {
  if (options[0].kind == Option::GO_ON && below(4) != 0) {
    return 0;
  }
  const auto pick = static_cast<std::size_t>(below(options.size()));
  const Option& option = options[pick];
  const bool good = option.kind == Option::RUN && (!option.wakes || below(8) == 0);
  return good ? pick : 0;
}

std::size_t Chance::byPriority(std::uint64_t point, std::span<const Option> options) {
  for (std::size_t i = 0; i < kChanges; ++i) {
    if (change_[i] == point) {
      priority_[options[0].rank % kRanks] = i;  // lower than all that were drawn
    }
  }
  std::size_t best = 0;
  for (std::size_t i = 1; i < options.size(); ++i) {
    const Option& each = options[i];
    if (each.kind == Option::RUN && !each.wakes &&
        priority_[each.rank % kRanks] > priority_[options[best].rank % kRanks]) {
      best = i;
    }
  }
  return best;
}

}  // namespace unisono::explore

// Model: a store that does one thing at a time, as simple as it can be.
#pragma once

#include <deque>
#include <map>
#include <string>

#include "linear/history.hpp"

namespace unisono::linear {

/// The contents of some keys and queues.
struct State {
  std::map<std::string, std::string> values;
  std::map<std::string, std::deque<std::string>> queues;

  friend bool operator==(const State&, const State&) = default;
  std::size_t hash() const;
};

/// Does `event` in `state`. False, and `state` is spoilt, when the answer that came back is not the
/// one that this store would have given.
bool step(State& state, const Event& event);

/// Whether the answer of `event` says that it changed nothing, whenever it happened.
bool isLook(const Event& event);
/// Whether such an answer is the one that this store gives in `state`.
bool agrees(const State& state, const Event& look);

}  // namespace unisono::linear

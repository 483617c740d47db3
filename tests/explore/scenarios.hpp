// Scenarios: all that is explored.
#pragma once

#include <string_view>
#include <vector>

#include "explore/stage.hpp"

namespace unisono::explore {

/// How many unusual things a run may have: without a kill, and beside one.
struct Effort {
  int calm = 2;
  int beside = 1;
};

/// How much the tests look at, and how much the proof does.
struct Efforts {
  Effort quick;
  Effort thorough;
};

struct Entry {
  Scenario scenario;
  Efforts efforts;
};

const std::vector<Entry>& entries();

/// All runs of `effort`, but no more than `most` of each kind.
Figures examine(Stage& stage, Effort effort, std::uint64_t most = ~std::uint64_t{0});

}  // namespace unisono::explore

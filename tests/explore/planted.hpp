// Planted: mistakes that an exploration has to find, or it proves nothing.
#pragma once

#include <vector>

#include "explore/stage.hpp"

namespace unisono::explore {

struct Planted {
  Scenario scenario;  // its name says what is wrong
  Mistake mistake = Mistake::NONE;
  int kills = 0;  // without which it does not show
};

const std::vector<Planted>& plantedMistakes();

}  // namespace unisono::explore

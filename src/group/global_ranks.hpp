// The numbers that the world knows the ranks of a group by: errors name culprits so.
#pragma once

#include <vector>

#include "unisono/group/process_group.hpp"

namespace unisono {

inline std::vector<int> globalRanks(const ProcessGroup& group, const std::vector<int>& ranks) {
  const std::vector<int>& known = group.defaultBackend()->options().globalRanks;
  std::vector<int> global;
  for (const int rank : ranks) {
    global.push_back(known.empty() ? rank : known.at(static_cast<std::size_t>(rank)));
  }
  return global;
}

}  // namespace unisono

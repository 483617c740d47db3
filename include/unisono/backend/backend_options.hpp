// BackendOptions: what every backend is told when it is made.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "unisono/store/store.hpp"
#include "unisono/work/options.hpp"

namespace unisono {

struct BackendOptions {
  std::chrono::milliseconds timeout = kDefaultGroupTimeout;  // of operations that have none
  std::string groupName = {};
  std::string groupDesc = {};
  std::vector<int> globalRanks = {};  // of the members, by group rank; empty: the same numbers
};

/// Everything that a factory makes a backend of.
struct BackendParams {
  std::shared_ptr<Store> store = {};  // shared by the members, for nothing but this backend
  int rank = 0;
  int size = 1;
  BackendOptions options = {};
};

}  // namespace unisono

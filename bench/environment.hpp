// What the figures of a benchmark depend on, besides the code.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace unisono::bench {

/// Processor, cores, kernel, load, time: name and value.
std::vector<std::pair<std::string, std::string>> environment();

}  // namespace unisono::bench

// The comparison as a picture (SVG): time over bytes, one panel per operation.
#pragma once

#include <string>
#include <vector>

#include "bench/collective/comparison.hpp"

namespace unisono::bench {

/// `caption` stands below: where the figures come from.
std::string drawTimes(const std::vector<CollectiveRow>& rows, const std::string& caption);

}  // namespace unisono::bench

// The comparison as a picture (SVG): time over bytes, one panel per operation.
#pragma once

#include <string>
#include <vector>

#include "bench/collective/comparison.hpp"

namespace unisono::bench {

/// `caption` stands below: where the figures come from. Without the references.
std::string drawTimes(const std::vector<CollectiveRow>& all, const std::string& caption);

}  // namespace unisono::bench

// The comparison as a picture (SVG): requests per second, one panel per verb and depth.
#pragma once

#include <string>
#include <vector>

#include "bench/store/compare.hpp"

namespace unisono::bench {

/// `caption` stands below: where the figures come from.
std::string drawRates(const std::vector<Row>& rows, const std::string& caption);

}  // namespace unisono::bench

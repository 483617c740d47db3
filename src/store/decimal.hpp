// Counters: stores keep them as decimal text, and add() works on that text.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.hpp"

namespace unisono {

/// The number at the start of `stored` (blanks and a sign may precede it, anything may follow;
/// nothing at all is 0) plus `delta`. Fails with USAGE when there is no number, or it or the sum
/// does not fit into 64 bits; the text quotes the value, the caller names the key.
Result<std::int64_t> addDecimal(std::string_view stored, std::int64_t delta);

}  // namespace unisono

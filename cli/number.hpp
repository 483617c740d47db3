// Numbers on the command line: decimal digits and nothing else. What the parser would make of the
// rest (a number that is too large becomes the largest there is, 010 becomes 8, nothing becomes 0)
// is not what anybody means.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace unisono::cli {

/// A whole number from `least` to `most`; for transform(), since it is put into plain digits.
CLI::Validator wholeNumber(std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                           std::int64_t most = std::numeric_limits<std::int64_t>::max());

/// Bytes from `least` to `most`, such as 8, 64K, 1M or 1GiB; for transform(), as wholeNumber().
CLI::Validator byteCount(std::uint64_t least, std::uint64_t most);

/// A number of seconds, which may have a fraction; at most as many as can be counted in
/// milliseconds.
CLI::Validator seconds(double least = 0, double most = 1e9);

}  // namespace unisono::cli

#include "store/decimal.hpp"

#include <charconv>
#include <string>

#include "base/str.hpp"

namespace unisono {
namespace {

/// `value` for a message: as much of it as a number could need.
std::string shown(std::string_view value) {
  constexpr std::size_t kMost = 40;
  return value.size() <= kMost ? str("'", value, "'") : str("'", value.substr(0, kMost), "...'");
}

constexpr bool isBlank(char c) noexcept {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

}  // namespace

Result<std::int64_t> addDecimal(std::string_view stored, std::int64_t delta) {
  if (stored.empty()) {
    return delta;
  }
  std::string_view digits = stored;
  while (!digits.empty() && isBlank(digits.front())) {
    digits.remove_prefix(1);
  }
  // from_chars knows '-' but not '+', and must not be led to accept "+-1".
  if (digits.starts_with('+') && !digits.substr(1).starts_with('-')) {
    digits.remove_prefix(1);
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error == std::errc::result_out_of_range) {
    return Status(Reason::USAGE, str("its value ", shown(stored), " does not fit into 64 bits"));
  }
  if (error != std::errc()) {
    return Status(Reason::USAGE, str("its value ", shown(stored), " is not a number"));
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(number, delta, &sum)) {
    return Status(Reason::USAGE, str("the sum of ", number, " and ", delta, " overflows 64 bits"));
  }
  return sum;
}

}  // namespace unisono

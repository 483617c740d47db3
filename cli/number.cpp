#include "number.hpp"

#include <charconv>
#include <string>
#include <string_view>

#include "base/str.hpp"

namespace unisono::cli {
namespace {

/// Whether all of `text` is one number, which then is in `value`.
template <typename Number>
bool parse(std::string_view text, Number& value) {
  if (text.starts_with('+') && !text.starts_with("+-")) {
    text.remove_prefix(1);
  }
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped == end;
}

}  // namespace

CLI::Validator wholeNumber(std::int64_t least, std::int64_t most) {
  const bool any = least == std::numeric_limits<std::int64_t>::min();
  const bool open = most == std::numeric_limits<std::int64_t>::max();
  const std::string range = any ? "" : str(least, open ? " or more" : str(" to ", most));
  return CLI::Validator(
      [=](std::string& text) {
        std::int64_t value = 0;
        if (!parse(text, value)) {
          return str("'", text, "' is not a whole number", any ? " of 64 bits" : ", ", range);
        }
        if (value < least || value > most) {
          return str(value, " is out of range, which is ", range);
        }
        text = str(value);  // with leading zeros the parser would take it for octal
        return std::string();
      },
      range);
}

CLI::Validator byteCount(std::uint64_t least, std::uint64_t most) {
  return CLI::Validator(
      [=](std::string& text) {
        std::string digits = text;
        for (const std::string_view ending : {"B", "b", "i"}) {
          if (digits.size() > 1 && digits.ends_with(ending)) {
            digits.pop_back();
          }
        }
        constexpr std::string_view kUnits = "KkMmGg";
        const std::size_t unit = digits.empty() ? std::string::npos : kUnits.find(digits.back());
        unsigned shift = 0;
        if (unit != std::string::npos) {
          digits.pop_back();
          shift = 10 * (static_cast<unsigned>(unit) / 2 + 1);
        }
        std::uint64_t value = 0;
        if (!parse(digits, value)) {
          return str("'", text, "' is not a number of bytes, such as 8, 64K or 1M");
        }
        if (value > (most >> shift) || (value << shift) < least) {
          return str(text, " is out of range, which is ", formatBytes(least), " to ",
                     formatBytes(most));
        }
        text = str(value << shift);
        return std::string();
      },
      "BYTES");
}

CLI::Validator seconds(double least, double most) {
  return CLI::Validator(
      [=](std::string& text) {
        double value = 0;
        if (!parse(text, value) || !(value >= 0 && value <= 1e9)) {  // nor is nan
          return str("'", text, "' is not a number of seconds, such as 2.5");
        }
        return value >= least && value <= most
                   ? std::string()
                   : str(text, " s is out of range, which is ", least, " to ", most);
      },
      "SECONDS");
}

}  // namespace unisono::cli

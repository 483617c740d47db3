#include "collective/tuning.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

namespace unisono {
namespace {

/// "64k", "4096", "inf".
std::optional<std::size_t> bytesIn(std::string_view text) {
  if (text == "inf") {
    return SIZE_MAX;
  }
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  const std::size_t at = std::string_view("kmg").find(unit);
  if (error != std::errc() || unit.size() > 1 || at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::size_t shift = unit.empty() ? 0 : 10 * (at + 1);
  const bool fits = number <= std::numeric_limits<std::size_t>::max() >> shift;
  return fits ? std::optional(number << shift) : std::nullopt;
}

/// "flat", "flat:1k-64k".
std::optional<TunedRange> rangeIn(std::string_view text) {
  const std::size_t colon = text.find(':');
  TunedRange range{.algorithm = std::string(text.substr(0, colon)),
                   .bytes = {.from = 0, .below = SIZE_MAX}};
  if (colon == std::string_view::npos) {
    return range;
  }
  const std::string_view bytes = text.substr(colon + 1);
  const std::size_t dash = bytes.find('-');
  if (dash == std::string_view::npos) {
    return std::nullopt;
  }
  const auto from = bytesIn(bytes.substr(0, dash));
  const auto below = bytesIn(bytes.substr(dash + 1));
  if (!from || !below || *from >= *below) {
    return std::nullopt;
  }
  range.bytes = {.from = *from, .below = *below};
  return range;
}

}  // namespace

std::optional<Tuning> Tuning::parse(std::string_view text) {
  constexpr std::string_view kLinks = "tcp/";
  Tuning tuning;
  std::string name;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view setting = rest.substr(0, rest.find_first_of(",;"));
    rest.remove_prefix(std::min(rest.size(), setting.size() + 1));
    if (const std::size_t equals = setting.find('='); equals != std::string_view::npos) {
      name = setting.substr(0, equals);
      std::erase(name, '_');
      setting.remove_prefix(equals + 1);
    }
    const bool isOfLinks = setting.starts_with(kLinks);
    const auto range = rangeIn(setting.substr(isOfLinks ? kLinks.size() : 0));
    if (!range) {
      return std::nullopt;
    }
    if (isOfLinks) {
      tuning.links.push_back({name, *range});
    } else if (name == "allreduce" || name == "blocks") {
      (name == "blocks" ? tuning.blocks : tuning.allreduce).push_back(*range);
    } else {
      return std::nullopt;
    }
  }
  return tuning;
}

}  // namespace unisono

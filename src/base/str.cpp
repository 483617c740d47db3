#include "base/str.hpp"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <vector>

namespace unisono {
namespace {

/// How many single-character edits turn `a` into `b`.
std::size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replace, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

struct Character {
  char32_t code;
  std::size_t length;  // in bytes; 0 when there is no UTF-8 here
};

/// The character that `text` begins with. Refuses what Unicode refuses: lone and missing tails,
/// more bytes than needed, surrogates, and codes beyond U+10FFFF.
Character firstCharacter(std::string_view text) {
  constexpr Character kNone{0, 0};
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) {
    return {lead, 1};
  }
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) {
    return kNone;
  }
  char32_t code = lead & (0x7fU >> length);
  for (const char c : text.substr(1, length - 1)) {
    const auto tail = static_cast<unsigned char>(c);
    if ((tail & 0xc0U) != 0x80U) {
      return kNone;
    }
    code = (code << 6U) | (tail & 0x3fU);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return overlong || surrogate || code > 0x10ffff ? kNone : Character{code, length};
}

/// Whether a terminal obeys it or a reader of lines breaks at it.
bool isControl(char32_t code) {
  constexpr char32_t kLineSeparator = 0x2028;
  constexpr char32_t kParagraphSeparator = 0x2029;
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == kLineSeparator ||
         code == kParagraphSeparator;
}

}  // namespace

std::string join(std::span<const std::string> items, std::string_view separator, std::size_t most) {
  std::string text;
  const std::size_t shown = std::min(items.size(), most);
  for (std::size_t i = 0; i < shown; ++i) {
    text += str(i == 0 ? "" : separator, items[i]);
  }
  if (shown < items.size()) {
    text += str(shown == 0 ? "" : " and ", items.size() - shown, " more");
  }
  return text;
}

std::string printable(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const Character first = firstCharacter(text);
    const std::string_view taken = text.substr(0, std::max<std::size_t>(first.length, 1));
    if (first.length > 0 && !isControl(first.code)) {
      safe += taken;
    } else {
      for (const char c : taken) {
        safe += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      }
    }
    text.remove_prefix(taken.size());
  }
  return safe;
}

std::string formatBytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 4> kUnits = {"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return str(bytes, " ", kUnits[unit]);
}

std::string formatDuration(std::chrono::milliseconds duration) {
  const std::int64_t ms = duration.count();
  if (ms < 1000 || ms % 1000 != 0) {
    return str(ms, "ms");
  }
  const std::int64_t seconds = ms / 1000;
  if (seconds < 60) {
    return str(seconds, "s");
  }
  return seconds % 60 == 0 ? str(seconds / 60, "m") : str(seconds / 60, "m", seconds % 60, "s");
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> known) {
  std::string_view best;
  std::size_t bestDistance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    const std::size_t distance = editDistance(name, candidate);
    const bool alike = distance < std::max(name.size(), candidate.size());  // share something
    if (alike && distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

std::string errnoText(int error) {
  return std::generic_category().message(error);
}

std::string errnoDetail(int error) {
  const char* name = ::strerrorname_np(error);
  return name == nullptr ? str(errnoText(error), " (errno ", error, ")")
                         : str(errnoText(error), " (", name, ")");
}

}  // namespace unisono

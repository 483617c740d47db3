#include "base/log_levels.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace unisono {
namespace {

std::optional<LogLevel> levelNamed(std::string_view name) {
  constexpr std::pair<std::string_view, LogLevel> kNames[] = {{"debug", LogLevel::DEBUG},
                                                              {"info", LogLevel::INFO},
                                                              {"warn", LogLevel::WARN},
                                                              {"error", LogLevel::ERROR},
                                                              {"off", LogLevel::OFF}};
  for (const auto& [known, level] : kNames) {
    if (name == known) {
      return level;
    }
  }
  return std::nullopt;
}

/// `text` in lower case and without blanks.
std::string plain(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c != ' ' && c != '\t') {
      result += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return result;
}

}  // namespace

LogLevels::LogLevels(std::string_view setting) {
  const std::string text = plain(setting);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    if (!part.empty()) {
      add(part);
    }
  }
}

LogLevel LogLevels::of(std::string_view room) const {
  const auto found = byRoom.find(room);
  return found == byRoom.end() ? everywhere : found->second;
}

void LogLevels::add(std::string_view part) {
  const std::size_t equals = part.find('=');
  const bool forAll = equals == std::string_view::npos;
  const std::optional<LogLevel> named = levelNamed(forAll ? part : part.substr(equals + 1));
  if (!named) {
    unknown = part;
  }
  const LogLevel level = named.value_or(LogLevel::WARN);  // a typo must not silence warnings
  if (forAll) {
    everywhere = level;
  } else {
    byRoom.insert_or_assign(std::string(part.substr(0, equals)), level);
  }
}

}  // namespace unisono

// LogLevels: which messages are shown, as UNISONO_LOG says it.
//
//   LogLevels levels("info, store=debug");
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/log.hpp"

namespace unisono {

struct LogLevels {
  /// Parts separated by commas, "info" or "store=debug", in any case and with any blanks; the last
  /// one for a room counts.
  explicit LogLevels(std::string_view setting);

  LogLevel of(std::string_view room) const;

  LogLevel everywhere = LogLevel::WARN;
  std::map<std::string, LogLevel, std::less<>> byRoom;
  std::string unknown;  // the last part that names no level

 private:
  void add(std::string_view part);
};

}  // namespace unisono

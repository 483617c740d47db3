#include "base/env.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <unistd.h>

#include "unisono/base/error.hpp"

#include "base/log.hpp"
#include "base/str.hpp"

// The linker gives the ends of the section that UNISONO_KNOB fills.
extern "C" {
extern const unisono::EnvEntry* const __start_unisono_knobs[] __attribute__((visibility("hidden")));
extern const unisono::EnvEntry* const __stop_unisono_knobs[] __attribute__((visibility("hidden")));
}

namespace unisono {
namespace {

constexpr std::string_view kPrefix = "UNISONO_";

[[noreturn]] void refuse(const EnvEntry& entry, std::string_view text, std::string_view expected) {
  throw UsageError({.reason = Reason::CONFIG,
                    .what = str("the environment variable ", entry.name, " is '", text,
                                "', which is not ", expected),
                    .hint = str("unset it (default ", entry.fallback, "), or set: ", entry.doc)});
}

template <typename Number>
Number parseNumber(const EnvEntry& entry, std::string_view text, std::string_view expected) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) {
    refuse(entry, text, expected);
  }
  return number;
}

}  // namespace

namespace detail {

template <>
std::string parseEnv(const EnvEntry&, std::string_view text) {
  return std::string(text);
}

template <>
std::int64_t parseEnv(const EnvEntry& entry, std::string_view text) {
  return parseNumber<std::int64_t>(entry, text, "a whole number");
}

template <>
double parseEnv(const EnvEntry& entry, std::string_view text) {
  const auto number = parseNumber<double>(entry, text, "a number");
  if (!std::isfinite(number)) {
    refuse(entry, text, "a number");
  }
  return number;
}

template <>
bool parseEnv(const EnvEntry& entry, std::string_view text) {
  for (const std::string_view yes : {"1", "true", "yes", "on"}) {
    if (text == yes) {
      return true;
    }
  }
  for (const std::string_view no : {"0", "false", "no", "off"}) {
    if (text == no) {
      return false;
    }
  }
  refuse(entry, text, "0 or 1");
}

std::string_view envText(const EnvEntry& entry) noexcept {
  const char* text = std::getenv(entry.name);
  return text == nullptr || *text == '\0' ? entry.fallback : text;
}

}  // namespace detail

std::span<const EnvEntry* const> knownKnobs() noexcept {
  return {__start_unisono_knobs, __stop_unisono_knobs};
}

// Options of `unisono run`, which knows them, and warns; those whom it starts inherit them.
constexpr std::string_view kLaunchersPrefix = "UNISONO_RUN_";

std::vector<UnknownVariable> unknownVariables(std::span<const char* const> environment) {
  // Compared without the prefix, which would make all names look alike.
  std::vector<std::string_view> known;
  for (const EnvEntry* entry : knownKnobs()) {
    known.push_back(std::string_view(entry->name).substr(kPrefix.size()));
  }
  std::vector<UnknownVariable> unknown;
  for (const std::string_view line : environment) {
    const std::string_view name = line.substr(0, line.find('='));
    if (!name.starts_with(kPrefix) || name.starts_with(kLaunchersPrefix)) {
      continue;
    }
    const std::string_view rest = name.substr(kPrefix.size());
    if (std::find(known.begin(), known.end(), rest) == known.end()) {
      const std::string_view meant = nearest(rest, known);
      unknown.push_back({std::string(name), meant.empty() ? "" : str(kPrefix, meant)});
    }
  }
  return unknown;
}

void checkEnvironment() {
  // Not std::call_once: the sink that shows the warning may read a knob, and a child forked
  // meanwhile would wait for ever for a thread it does not have.
  constinit static std::atomic<bool> checked{false};
  if (checked.exchange(true)) {
    return;
  }
  static_cast<void>(logEnabled(LogLevel::WARN, "env"));  // tells of a wrong UNISONO_LOG, too
  std::size_t count = 0;
  while (environ != nullptr && environ[count] != nullptr) {
    ++count;
  }
  for (const UnknownVariable& variable : unknownVariables({environ, count})) {
    const std::string guess =
        variable.meant.empty() ? "" : str("; did you mean ", variable.meant, "?");
    UNISONO_LOG(WARN, "env", "the environment variable ", variable.name,
                " is not known and has no effect", guess);
  }
}

}  // namespace unisono

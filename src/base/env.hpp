// EnvKnob: an environment variable with a type, a default and a sentence, declared beside its use.
//
//   UNISONO_KNOB(double, kHangWarn, "UNISONO_HANG_WARN", "10", "seconds a call waits before …");
//   … kHangWarn.value() …
//
// Every knob is listed by `unisono info --env`; a UNISONO_ variable that no knob knows is
// warned about once, with the nearest known name, so that a typo never silently does nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unisono {

/// What is listed of a knob.
struct EnvEntry {
  const char* name;
  const char* fallback;  // the default, as text
  const char* doc;
};

namespace detail {
/// Text to value; throws UsageError (CONFIG) naming variable and value. These are the types a
/// knob may have.
template <typename T>
T parseEnv(const EnvEntry& entry, std::string_view text) = delete;
template <>
std::string parseEnv(const EnvEntry& entry, std::string_view text);
template <>
std::int64_t parseEnv(const EnvEntry& entry, std::string_view text);
template <>
double parseEnv(const EnvEntry& entry, std::string_view text);
template <>
bool parseEnv(const EnvEntry& entry, std::string_view text);

/// The variable's text, or the default.
std::string_view envText(const EnvEntry& entry) noexcept;
}  // namespace detail

/// Warns once per process about UNISONO_ variables that nothing reads.
void checkEnvironment();

/// The UNISONO_ variables in `environment` ("NAME=value") that no knob knows, each with the
/// nearest known name (or "").
struct UnknownVariable {
  std::string name;
  std::string meant;
};
std::vector<UnknownVariable> unknownVariables(std::span<const char* const> environment);

/// All knobs of the library.
std::span<const EnvEntry* const> knownKnobs() noexcept;

template <typename T>
struct EnvKnob : EnvEntry {
  /// The variable's value now. Read it when an object is made, not on a hot path.
  T value() const {
    checkEnvironment();
    return read();
  }

  /// As value(), without the check for unknown variables (which itself logs).
  T read() const { return detail::parseEnv<T>(*this, detail::envText(*this)); }
};

}  // namespace unisono

/// Declares a knob and puts it on the list. The list is a section of the library, gathered by
/// the linker: knobs stay beside their use, and nothing runs at start-up.
#define UNISONO_KNOB(type, variable, name, fallback, doc)                                         \
  static_assert(::std::string_view(name).starts_with("UNISONO_"));                                \
  constexpr ::unisono::EnvKnob<type> variable{{name, fallback, doc}};                             \
  [[gnu::used,                                                                                    \
    gnu::section("unisono_knobs")]] constinit const ::unisono::EnvEntry* const variable##Listed = \
      &variable

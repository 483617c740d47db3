// Options as users might write them: values of environment variables, UNISONO_LOG, and numbers on
// the command line.
#include <cmath>
#include <string>

#include "unisono/base/error.hpp"

#include "base/env.hpp"
#include "base/log_levels.hpp"
#include "fuzz/check.hpp"
#include "number.hpp"

namespace {

using namespace unisono;

constexpr EnvEntry kEntry{"UNISONO_FUZZED", "1", "what is fuzzed"};

/// What `text` means, if anything; a refusal must be one line that names the variable.
template <typename T>
std::optional<T> valueOf(const std::string& text) {
  try {
    return detail::parseEnv<T>(kEntry, text);
  } catch (const UsageError& error) {
    const std::string_view said = error.what();
    FUZZ_EXPECT(said.find('\n') == said.npos && said.find(kEntry.name) != said.npos);
    return std::nullopt;
  }
}

void readVariables(const std::string& text) {
  if (const auto number = valueOf<std::int64_t>(text)) {
    FUZZ_EXPECT(valueOf<std::int64_t>(std::to_string(*number)) == number);
  }
  if (const auto number = valueOf<double>(text)) {
    FUZZ_EXPECT(std::isfinite(*number));
  }
  static_cast<void>(valueOf<bool>(text));
  FUZZ_EXPECT(valueOf<std::string>(text) == text);
}

void readLevels(const std::string& text) {
  const LogLevels levels(text);
  for (const auto& [room, level] : levels.byRoom) {
    FUZZ_EXPECT(levels.of(room) == level);
  }
  // What is not known never says less than the default.
  const LogLevels typo(text + ",nonsense");
  FUZZ_EXPECT(typo.unknown == "nonsense" && typo.everywhere == LogLevel::WARN);
}

/// Whatever `take` accepts, it accepts again as it has written it; the rest is refused with a text.
void readNumber(const CLI::Validator& take, const std::string& text) {
  std::string first = text;
  if (!take(first).empty()) {
    return;
  }
  std::string second = first;
  FUZZ_EXPECT(take(second).empty() && second == first);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  readVariables(text);
  readLevels(text);
  readNumber(cli::wholeNumber(), text);
  readNumber(cli::wholeNumber(0, 65'535), text);
  readNumber(cli::byteCount(1, std::uint64_t{1} << 40U), text);
  readNumber(cli::seconds(), text);
  return 0;
}

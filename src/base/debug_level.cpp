#include "unisono/base/debug_level.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string>

#include "unisono/base/error.hpp"

#include "base/env.hpp"
#include "base/str.hpp"

namespace unisono {
namespace {

UNISONO_KNOB(
    std::string, kDebug, "UNISONO_DEBUG", "",
    "how much is told and checked beyond the usual: off, info or detail (ranks compare the "
    "shapes of tensors before each collective); empty = what TORCH_DISTRIBUTED_DEBUG says, "
    "or off. The same on all ranks");

constexpr const char* kTorchsVariable = "TORCH_DISTRIBUTED_DEBUG";

constexpr std::array kDebugLevels = {DebugLevel::OFF, DebugLevel::INFO, DebugLevel::DETAIL};

constexpr int kNotAsked = -1;
constinit std::atomic<int> levelNow{kNotAsked};

DebugLevel debugLevelNamed(std::string_view variable, std::string_view text) {
  std::string word(text);
  std::transform(word.begin(), word.end(), word.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  for (const DebugLevel level : kDebugLevels) {
    if (word == name(level)) {
      return level;
    }
  }
  // USAGE, not CONFIG: in Python it is the ValueError that PyTorch raises.
  throw UsageError({.reason = Reason::USAGE,
                    .what = str("The value of ", variable, " must be OFF, INFO, or DETAIL. It is '",
                                printable(text), "'"),
                    .hint = "set one of them, in any case, or unset the variable"});
}

DebugLevel levelOfEnvironment() {
  if (const std::string own = kDebug.value(); !own.empty()) {
    return debugLevelNamed(kDebug.name, own);
  }
  const char* const torchs = std::getenv(kTorchsVariable);
  return torchs == nullptr ? DebugLevel::OFF : debugLevelNamed(kTorchsVariable, torchs);
}

}  // namespace

std::string_view name(DebugLevel level) noexcept {
  switch (level) {
    case DebugLevel::OFF:
      return "OFF";
    case DebugLevel::INFO:
      return "INFO";
    case DebugLevel::DETAIL:
      break;
  }
  return "DETAIL";
}

DebugLevel debugLevel() {
  int now = levelNow.load(std::memory_order_relaxed);
  if (now == kNotAsked) {
    const int read = static_cast<int>(levelOfEnvironment());
    // Unless somebody has set it meanwhile, which goes before.
    now = levelNow.compare_exchange_strong(now, read, std::memory_order_relaxed) ? read : now;
  }
  return static_cast<DebugLevel>(now);
}

void setDebugLevel(DebugLevel level) noexcept {
  levelNow.store(static_cast<int>(level), std::memory_order_relaxed);
}

void setDebugLevelFromEnvironment() {
  setDebugLevel(levelOfEnvironment());
}

}  // namespace unisono

#include "unisono/base/error.hpp"

#include <array>
#include <utility>

#include "base/str.hpp"

namespace unisono {
namespace {

constexpr std::array<std::string_view, 17> kTokens = {"PEER_DEAD",   "PEER_UNREACHABLE",
                                                      "PEER_LEFT",   "TIMEOUT",
                                                      "ABORTED",     "MISMATCH",
                                                      "POISONED",    "FORKED",
                                                      "SHUTDOWN",    "STORE_LOST",
                                                      "STORE_STALE", "AUTH_FAILED",
                                                      "PROTOCOL",    "LIMIT",
                                                      "RESOURCE",    "CONFIG",
                                                      "USAGE"};
static_assert(kTokens.size() == static_cast<std::size_t>(Reason::USAGE) + 1);

/// " op=get", or nothing for an empty value.
void appendField(std::string& fields, std::string_view name, std::string_view value) {
  if (!value.empty()) {
    fields += str(fields.empty() ? "" : " ", name, "=", value);
  }
}

std::string machineFields(const ErrorFacts& facts) {
  std::string fields;
  appendField(fields, "op", facts.op);
  appendField(fields, "seq", facts.seq ? str(*facts.seq) : "");
  appendField(fields, "group", facts.group);
  if (facts.rank >= 0) {
    appendField(fields, "rank",
                facts.world >= 0 ? str(facts.rank, "/", facts.world) : str(facts.rank));
  }
  if (!facts.culprits.empty()) {
    std::string ranks;
    for (const int culprit : facts.culprits) {
      ranks += str(ranks.empty() ? "" : ",", culprit);
    }
    appendField(fields, "culprits", str("[", ranks, "]"));
  }
  appendField(fields, "host", facts.host);
  appendField(fields, "pid", facts.pid >= 0 ? str(facts.pid) : "");
  appendField(fields, "by", facts.detectedBy);
  appendField(fields, "elapsed", facts.elapsed ? str(facts.elapsed->count(), "ms") : "");
  return fields;
}

/// Ends a sentence with exactly one stop.
void appendSentence(std::string& line, std::string_view text) {
  line += text;
  if (!text.ends_with('.') && !text.ends_with('?')) {
    line += '.';
  }
}

}  // namespace

std::string_view token(Reason reason) noexcept {
  const auto index = static_cast<std::size_t>(reason);
  return index < kTokens.size() ? kTokens[index] : "UNKNOWN";
}

std::optional<Reason> reasonWithToken(std::string_view text) noexcept {
  for (std::size_t i = 0; i < kTokens.size(); ++i) {
    if (kTokens[i] == text) {
      return static_cast<Reason>(i);
    }
  }
  return std::nullopt;
}

std::string describe(const ErrorFacts& facts) {
  std::string line = "unisono: ";
  appendSentence(line, facts.what);
  if (!facts.hint.empty()) {
    line += " DO: ";
    appendSentence(line, facts.hint);
  }
  line += str(" [", token(facts.reason), "]");
  const std::string fields = machineFields(facts);
  if (!fields.empty()) {
    line += str(" {", fields, "}");
  }
  return printable(line);
}

DistError::DistError(ErrorFacts facts)
    : std::runtime_error(describe(facts)),
      facts_(std::make_shared<const ErrorFacts>(std::move(facts))) {}

// Out of line, so that each type has one home and catches work across shared libraries.
DistError::~DistError() = default;
UsageError::~UsageError() = default;
NotSupportedError::~NotSupportedError() = default;
DistBackendError::~DistBackendError() = default;
DistTimeoutError::~DistTimeoutError() = default;
DistStoreError::~DistStoreError() = default;
DistQueueEmptyError::~DistQueueEmptyError() = default;
DistNetworkError::~DistNetworkError() = default;
DistAuthError::~DistAuthError() = default;

}  // namespace unisono

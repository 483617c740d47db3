#include "fault/report.hpp"

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"

namespace unisono::fault {
namespace {

ErrorKind kindOf(const std::exception& error) {
  if (dynamic_cast<const DistTimeoutError*>(&error) != nullptr) {
    return ErrorKind::TIMEOUT;
  }
  if (dynamic_cast<const DistBackendError*>(&error) != nullptr) {
    return ErrorKind::BACKEND;
  }
  if (dynamic_cast<const DistStoreError*>(&error) != nullptr) {
    return ErrorKind::STORE;
  }
  if (dynamic_cast<const DistNetworkError*>(&error) != nullptr) {
    return ErrorKind::NETWORK;
  }
  if (dynamic_cast<const UsageError*>(&error) != nullptr) {
    return ErrorKind::USAGE;
  }
  return ErrorKind::OTHER;
}

}  // namespace

std::int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             systemClock().now().time_since_epoch())
      .count();
}

std::uint32_t bitsOf(const std::vector<int>& ranks) {
  std::uint32_t bits = 0;
  for (const int rank : ranks) {
    bits |= rank >= 0 && rank < kMostRanks ? 1U << static_cast<unsigned>(rank) : 0U;
  }
  return bits;
}

void note(Report& report, const std::exception& error, std::int64_t when) {
  const std::size_t size = std::min(std::strlen(error.what()), sizeof report.text - 1);
  std::memcpy(report.text, error.what(), size);
  report.text[size] = '\0';
  report.kind.store(kindOf(error));
  const auto* known = dynamic_cast<const DistError*>(&error);
  report.reason.store(known == nullptr ? -1 : static_cast<std::int32_t>(known->reason()));
  report.culprits.store(known == nullptr ? 0 : bitsOf(known->culprits()));
  report.endedNs.store(when);
}

}  // namespace unisono::fault

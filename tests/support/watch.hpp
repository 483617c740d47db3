// What tests with several processes look at: times that they compare, and what processes hold.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.hpp"

namespace unisono::test {

/// Now, for times that processes compare.
std::int64_t nowNs();

/// Waits until `ready`; false when that takes longer than `patience`.
bool eventually(const std::function<bool()>& ready,
                Milliseconds patience = std::chrono::seconds(30));

/// Whether a local socket of that name exists: none may outlive its process.
bool isLocalSocket(const std::string& name);

/// What this process has.
struct Holdings {
  std::int64_t descriptors = 0;
  std::int64_t mappings = 0;  // of unisono's memory
  std::int64_t threads = 0;
  std::int64_t residentKib = 0;
};
Holdings holdings();

}  // namespace unisono::test

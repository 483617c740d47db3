// WorkInfo, WorkResult, ErrorType: what is told of an operation that has ended.
#pragma once

#include <chrono>
#include <cstdint>

#include "unisono/work/op_type.hpp"

namespace unisono {

/// How an operation ended; numbers as in c10d.
enum class WorkResult : std::uint8_t { SUCCESS = 0, TIMEOUT = 1, COMM_ERROR = 2, UNKNOWN = 100 };

/// What is wrong with a backend; numbers as in c10d.
enum class ErrorType : std::uint8_t { SUCCESS = 0, TIMEOUT = 1, COMM_ERROR = 2, REMOTE_ERROR = 3 };

/// What a completion hook is given. The times are those of the machine's monotonic clock; the
/// active duration is 0 when the backend does not measure it.
struct WorkInfo {
  OpType opType = OpType::UNKNOWN;
  std::uint64_t seq = 0;
  std::chrono::steady_clock::time_point timeStarted = {};
  std::chrono::steady_clock::time_point timeFinished = {};
  std::chrono::duration<float> activeDuration = {};
  WorkResult result = WorkResult::UNKNOWN;
};

}  // namespace unisono

// Options: one plain struct per operation, with c10d's fields in c10d's order.
//
//   group.allreduce(gradients, {.reduceOp = ReduceOp::AVG, .timeout = 30s});
//
// Ranks are ranks of the group. `asyncOp = false` says that the caller is going to wait at once:
// the operation may then run on the caller's thread and have ended when the call returns.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "unisono/reduction/reduce_op.hpp"
#include "unisono/tensor/device.hpp"
#include "unisono/tensor/tensor.hpp"

namespace unisono {

/// Of an operation: the default of its group.
inline constexpr std::chrono::milliseconds kUnsetTimeout{-1};
/// Of Work::wait() and Future::wait() only: without limit.
inline constexpr std::chrono::milliseconds kNoTimeout{0};
/// What groups give an operation unless told otherwise.
inline constexpr std::chrono::milliseconds kDefaultGroupTimeout = std::chrono::minutes(30);

struct BroadcastOptions {
  int rootRank = 0;
  int rootTensor = 0;  // which of several local tensors is the source
  std::chrono::milliseconds timeout = kUnsetTimeout;
  bool asyncOp = true;
};

struct AllreduceOptions {
  ReduceOp reduceOp = ReduceOp::SUM;
  std::chrono::milliseconds timeout = kUnsetTimeout;
  bool asyncOp = true;
  std::optional<Tensor> sparseIndices = std::nullopt;
};

struct AllreduceCoalescedOptions {
  ReduceOp reduceOp = ReduceOp::SUM;
  std::chrono::milliseconds timeout = kUnsetTimeout;
  bool asyncOp = true;
};

struct ReduceOptions {
  ReduceOp reduceOp = ReduceOp::SUM;
  int rootRank = 0;
  int rootTensor = 0;
  std::chrono::milliseconds timeout = kUnsetTimeout;
  bool asyncOp = true;
};

struct AllgatherOptions {
  std::chrono::milliseconds timeout = kUnsetTimeout;
  bool asyncOp = true;
};

struct GatherOptions {
  int rootRank = 0;
  std::chrono::milliseconds timeout = kUnsetTimeout;
  bool asyncOp = true;
};

struct ScatterOptions {
  int rootRank = 0;
  std::chrono::milliseconds timeout = kUnsetTimeout;
  bool asyncOp = true;
};

struct ReduceScatterOptions {
  ReduceOp reduceOp = ReduceOp::SUM;
  std::chrono::milliseconds timeout = kUnsetTimeout;
  bool asyncOp = true;
};

struct AllToAllOptions {
  std::chrono::milliseconds timeout = kUnsetTimeout;
  bool asyncOp = true;
};

struct BarrierOptions {
  std::vector<std::int64_t> deviceIds = {};
  std::chrono::milliseconds timeout = kUnsetTimeout;
  std::optional<Device> device = std::nullopt;
  bool asyncOp = true;
};

/// send, recv, recvAnysource: c10d gives these none.
struct P2POptions {
  std::chrono::milliseconds timeout = kUnsetTimeout;
  bool asyncOp = true;
};

}  // namespace unisono

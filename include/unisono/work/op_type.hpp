// OpType: which operation of a group something is about.
#pragma once

#include <cstdint>
#include <string_view>

#include "unisono/base/api.hpp"

namespace unisono {

/// The operations and their numbers, as in c10d: they appear in Python, in pickles and in dumps.
enum class OpType : std::uint8_t {
  BROADCAST = 0,
  ALLREDUCE = 1,
  ALLREDUCE_COALESCED = 2,
  REDUCE = 3,
  ALLGATHER = 4,
  ALLGATHER_BASE = 5,  // allGatherSingle
  ALLGATHER_COALESCED = 6,
  GATHER = 7,
  SCATTER = 8,
  REDUCE_SCATTER = 9,
  ALLTOALL_BASE = 10,  // allToAllSingle
  ALLTOALL = 11,
  SEND = 12,
  RECV = 13,
  RECVANYSOURCE = 14,
  BARRIER = 15,
  REDUCE_SCATTER_BASE = 16,  // reduceScatterSingle
  COALESCED = 17,            // a batch of others
  ALLREDUCE_SPARSE = 18,
  REDUCE_SCATTER_TENSOR_COALESCED = 19,  // reduceScatterSingleCoalesced
  ALLGATHER_INTO_TENSOR_COALESCED = 20,  // allGatherSingleCoalesced
  UNKNOWN = 100,
};
inline constexpr int kOpTypeCount = 21;  // without UNKNOWN

/// c10d's name of the enumerator: "ALLREDUCE", "_ALLGATHER_BASE". A number that is none of them
/// gives "UNKNOWN".
UNISONO_API std::string_view name(OpType type) noexcept;

/// What users call it and errors print: "all_reduce", "all_gather_single".
UNISONO_API std::string_view opName(OpType type) noexcept;

/// The method of c10d's Backend: "allreduce", "_allgather_base"; for texts that programs match.
UNISONO_API std::string_view methodName(OpType type) noexcept;

/// Whether it is between two ranks; what is part of a batch counts as the batch, which is not.
constexpr bool isP2POp(OpType type, bool batchP2P = false) noexcept {
  return !batchP2P &&
         (type == OpType::SEND || type == OpType::RECV || type == OpType::RECVANYSOURCE);
}

/// Whether its contributions are combined by a ReduceOp.
constexpr bool isReduction(OpType type) noexcept {
  switch (type) {
    case OpType::ALLREDUCE:
    case OpType::ALLREDUCE_COALESCED:
    case OpType::ALLREDUCE_SPARSE:
    case OpType::REDUCE:
    case OpType::REDUCE_SCATTER:
    case OpType::REDUCE_SCATTER_BASE:
    case OpType::REDUCE_SCATTER_TENSOR_COALESCED:
      return true;
    default:
      return false;
  }
}

/// Whether one rank is special.
constexpr bool isRooted(OpType type) noexcept {
  return type == OpType::BROADCAST || type == OpType::REDUCE || type == OpType::GATHER ||
         type == OpType::SCATTER;
}

}  // namespace unisono

#include "unisono/work/op_type.hpp"

namespace unisono {
namespace {

struct Names {
  std::string_view enumerator;
  std::string_view user;
  std::string_view method;
};

constexpr Names kNames[kOpTypeCount] = {
    {"BROADCAST", "broadcast", "broadcast"},
    {"ALLREDUCE", "all_reduce", "allreduce"},
    {"ALLREDUCE_COALESCED", "all_reduce_coalesced", "allreduce_coalesced"},
    {"REDUCE", "reduce", "reduce"},
    {"ALLGATHER", "all_gather", "allgather"},
    {"_ALLGATHER_BASE", "all_gather_single", "_allgather_base"},
    {"ALLGATHER_COALESCED", "all_gather_coalesced", "allgather_coalesced"},
    {"GATHER", "gather", "gather"},
    {"SCATTER", "scatter", "scatter"},
    {"REDUCE_SCATTER", "reduce_scatter", "reduce_scatter"},
    {"ALLTOALL_BASE", "all_to_all_single", "alltoall_base"},
    {"ALLTOALL", "all_to_all", "alltoall"},
    {"SEND", "send", "send"},
    {"RECV", "recv", "recv"},
    {"RECVANYSOURCE", "recv_anysource", "recvAnysource"},
    {"BARRIER", "barrier", "barrier"},
    {"_REDUCE_SCATTER_BASE", "reduce_scatter_single", "_reduce_scatter_base"},
    {"COALESCED", "coalesced", "endCoalescing"},
    {"_ALLREDUCE_SPARSE", "all_reduce_sparse", "allreduce sparse"},
    {"REDUCE_SCATTER_TENSOR_COALESCED", "reduce_scatter_single_coalesced",
     "reduce_scatter_tensor_coalesced"},
    {"ALLGATHER_INTO_TENSOR_COALESCED", "all_gather_single_coalesced",
     "allgather_into_tensor_coalesced"},
};
constexpr Names kUnknown = {"UNKNOWN", "unknown operation", "unknown operation"};

const Names& namesOf(OpType type) noexcept {
  const auto index = static_cast<std::uint8_t>(type);
  return index < kOpTypeCount ? kNames[index] : kUnknown;
}

}  // namespace

std::string_view name(OpType type) noexcept {
  return namesOf(type).enumerator;
}

std::string_view opName(OpType type) noexcept {
  return namesOf(type).user;
}

std::string_view methodName(OpType type) noexcept {
  return namesOf(type).method;
}

}  // namespace unisono

// The checks of one call, operation by operation, in the order in which c10d makes them.
#pragma once

#include "work/refusal.hpp"

namespace unisono::detail {

/// Throws UsageError unless the call makes sense.
void validateCall(const Call& call);

void validateAllgather(const Call& call);
void validateAllgatherCoalesced(const Call& call);
void validateGather(const Call& call);
void validateScatter(const Call& call);
void validateReduceScatter(const Call& call);
void validateAllToAll(const Call& call);

}  // namespace unisono::detail

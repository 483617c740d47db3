// What FakeBackend puts into the outputs of a call, made of nothing but its inputs.
#pragma once

#include "unisono/work/collective_args.hpp"

namespace unisono::detail {

/// REQUIRES: the call was validated for this rank.
void fillOutputs(const CollectiveArgs& args, int rank);

}  // namespace unisono::detail

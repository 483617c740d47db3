// Blame: turns the cause of a group's failure into the error that a rank throws.
#pragma once

#include "unisono/base/error.hpp"

#include "life/abort_record.hpp"

namespace unisono {

/// Throws the error for `cause`: DistTimeoutError for TIMEOUT, DistBackendError for all else.
/// `facts` says what this rank was doing; its `rank`, `world`, `group`, `op`, `seq` are kept.
/// `globalCulprits` are the ranks of the culprits in the world.
[[noreturn]] void throwCause(const AbortCause& cause, ErrorFacts facts,
                             std::vector<int> globalCulprits);

}  // namespace unisono

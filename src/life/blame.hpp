// Blame: turns the cause of a group's failure into the error that a rank throws.
#pragma once

#include "unisono/base/error.hpp"

#include "life/abort_record.hpp"

namespace unisono {

/// Throws the error for `cause`: DistTimeoutError for TIMEOUT, DistBackendError for all else.
/// `facts` says what this rank was doing; its `rank`, `world`, `group`, `op`, `seq` are kept.
/// `globalCulprit` is the culprit's rank in the world, -1 when there is none.
[[noreturn]] void throwCause(const AbortCause& cause, ErrorFacts facts, int globalCulprit);

}  // namespace unisono

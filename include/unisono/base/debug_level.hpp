// DebugLevel: how much a process is asked to tell and check beyond what it always does.
//
// One setting for programs, hooks and backends to ask for. The first question for it reads the
// environment: UNISONO_DEBUG, or PyTorch's TORCH_DISTRIBUTED_DEBUG where that is not set. That
// ranks call the same operations is checked at every level; groups that are made at DETAIL compare
// the shapes of tensors too (ProcessGroupWrapper).
//
// Thread safety: everything here may be called from any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "unisono/base/api.hpp"

namespace unisono {

/// Numbered as in c10d.
enum class DebugLevel : std::uint8_t {
  OFF = 0,
  INFO = 1,    // tells more about what is done
  DETAIL = 2,  // and checks what takes time
};

/// "OFF", "INFO", "DETAIL".
UNISONO_API std::string_view name(DebugLevel level) noexcept;

/// The level of this process. UsageError when the environment is read and names none.
UNISONO_API DebugLevel debugLevel();

/// Sets it, whatever the environment says.
UNISONO_API void setDebugLevel(DebugLevel level) noexcept;

/// Reads the environment anew. UsageError, and no change, when that names no level.
UNISONO_API void setDebugLevelFromEnvironment();

}  // namespace unisono

// Telling whoever setDDPUsageLogger() named.
#pragma once

#include "unisono/ddp/logging_data.hpp"

namespace unisono::ddp {

/// Never throws.
void reportUsage(const DDPLoggingData& data) noexcept;

}  // namespace unisono::ddp

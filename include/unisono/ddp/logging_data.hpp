// DDPLoggingData: what is known of a data-parallel training, as names and values.
//
// Names, units and the times at which they are filled are c10d's, so that programs which read its
// logs read these, too.
//
// Thread safety: setDDPUsageLogger() may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "unisono/base/api.hpp"

namespace unisono {

struct DDPLoggingData {
  std::map<std::string, std::string> strsMap = {};
  std::map<std::string, std::int64_t> intsMap = {};
};

/// "backend_name=unisono … iteration=18 …": all that is known, in one line.
UNISONO_API std::string describe(const DDPLoggingData& data);

/// Who is told of all trainings of this process from now on: when one begins, on every error, and
/// now and then. Called under no lock, on the thread that did what is told; what it throws is
/// logged and dropped. An empty function for nobody, as it is at first.
UNISONO_API void setDDPUsageLogger(std::function<void(const DDPLoggingData&)> logger);

}  // namespace unisono

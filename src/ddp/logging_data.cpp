#include "unisono/ddp/logging_data.hpp"

#include <exception>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/str.hpp"
#include "ddp/usage_log.hpp"

namespace unisono {
namespace {

struct UsageLogger {
  Mutex mutex;
  std::function<void(const DDPLoggingData&)> call UNISONO_GUARDED_BY(mutex);
};

/// Never destroyed: a Logger may go when the process ends.
UsageLogger& usageLogger() {
  static auto* const logger = new UsageLogger;
  return *logger;
}

}  // namespace

std::string describe(const DDPLoggingData& data) {
  std::vector<std::string> fields;
  for (const auto& [name, value] : data.strsMap) {
    fields.push_back(str(name, "=", value));
  }
  for (const auto& [name, value] : data.intsMap) {
    fields.push_back(str(name, "=", value));
  }
  return join(fields, " ", fields.size());
}

void setDDPUsageLogger(std::function<void(const DDPLoggingData&)> logger) {
  UsageLogger& global = usageLogger();
  const MutexLock lock(global.mutex);
  global.call = std::move(logger);
}

void ddp::reportUsage(const DDPLoggingData& data) noexcept {
  try {
    std::function<void(const DDPLoggingData&)> call;
    {
      UsageLogger& global = usageLogger();
      const MutexLock lock(global.mutex);
      call = global.call;
    }
    if (call) {
      call(data);
    }
  } catch (const std::exception& error) {
    UNISONO_LOG(WARN, "ddp", "the usage logger threw: ", error.what());
  } catch (...) {  // it is the user's: it may throw anything
    UNISONO_LOG(WARN, "ddp", "the usage logger threw something that is no std::exception");
  }
}

}  // namespace unisono

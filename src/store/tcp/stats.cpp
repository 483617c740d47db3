// What a server tells of itself.

#include "base/str.hpp"
#include "store/tcp/core.hpp"

namespace unisono::tcp {

std::string StoreCore::statsText(TimePoint now) const {
  std::string requests;
  for (const Shape& shape : kShapes) {
    const std::uint64_t count = requests_[shapeIndex(shape.query)];
    if (shape.query != Query::VALIDATE) {  // each connection says it once
      requests += str(requests.empty() ? "" : ",", "\"", shape.name, "\":", count);
    }
  }
  const auto uptime = std::chrono::duration_cast<Milliseconds>(now - start_);
  return str(
      "{\"schema\":\"unisono-store-stats/1\",\"uptime_ms\":", uptime.count(),
      ",\"keys\":", table_.size(), ",\"bytes\":", table_.contentBytes(),
      ",\"queues\":", table_.queueCount(), ",\"queued\":", table_.queuedCount(),
      ",\"waits\":", table_.waitCount(), ",\"connections\":", sessions_.size(),
      ",\"accepted\":", accepted_, ",\"unsent_bytes\":", unsentBytes_,
      ",\"partial_bytes\":", partialBytes_, ",\"requests\":{", requests,
      "},\"limits\":{\"key_bytes\":", limits_.keyBytes, ",\"value_bytes\":", limits_.valueBytes,
      ",\"keys_per_request\":", limits_.keysPerCommand, ",\"request_bytes\":", limits_.commandBytes,
      ",\"bytes\":", limits_.contentBytes, ",\"keys\":", limits_.keys,
      ",\"queue_length\":", limits_.queueLength, ",\"connections\":", limits_.connections, "}}");
}

}  // namespace unisono::tcp

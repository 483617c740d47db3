#include "unisono/control/control_collectives.hpp"

#include "base/bytes.hpp"

namespace unisono {

ControlCollectives::~ControlCollectives() = default;

void ControlCollectives::broadcastSend(std::string_view key, std::string_view data,
                                       Timeout timeout) {
  broadcastSend(key, asBytes(data), timeout);
}

void ControlCollectives::gatherSend(std::string_view key, std::string_view data, Timeout timeout) {
  gatherSend(key, asBytes(data), timeout);
}

std::vector<Bytes> ControlCollectives::gatherRecv(std::string_view key, std::string_view data,
                                                  Timeout timeout) {
  return gatherRecv(key, asBytes(data), timeout);
}

std::vector<Bytes> ControlCollectives::allGather(std::string_view key, std::string_view data,
                                                 Timeout timeout) {
  return allGather(key, asBytes(data), timeout);
}

}  // namespace unisono

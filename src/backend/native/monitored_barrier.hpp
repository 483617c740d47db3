// Monitored barrier: a barrier in which rank 0 hears everybody, and says who did not come.
#pragma once

#include <string_view>
#include <vector>

#include "transport/communicator.hpp"
#include "transport/shm/arena.hpp"

namespace unisono {

/// Its name in texts. Posts tell it from a plain barrier by having a root.
inline constexpr std::string_view kMonitoredBarrier = "monitored_barrier";

struct MonitoredBarrierOptions {
  Milliseconds timeout{};  // of ranks other than 0: the group's
  /// Rank 0 waits for everybody, `timeout` each, and names all who are missing. Otherwise
  /// `timeout` is for all together, and the first who is missing is named.
  bool waitAllRanks = false;
  std::vector<int> globalRanks;  // by rank in the group
};

/// Returns when all ranks have called it. Who is missing ends the group, as every operation that
/// times out does; so the other ranks learn of it as soon as rank 0. Texts name ranks of the
/// group, `culprits` ranks of the world. Throws DistTimeoutError or DistBackendError.
void monitoredBarrier(shm::Arena& arena, const MonitoredBarrierOptions& options);
void monitoredBarrier(Communicator& comm, const MonitoredBarrierOptions& options);

}  // namespace unisono

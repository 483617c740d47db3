#include "backend/native/engine.hpp"

#include <numeric>

#include "unisono/base/debug_level.hpp"

#include "backend/native/mesh_engine.hpp"
#include "backend/native/shm_engine.hpp"
#include "base/env.hpp"
#include "base/log.hpp"
#include "base/shared_memory.hpp"
#include "base/str.hpp"
#include "net/local_socket.hpp"
#include "transport/meeting.hpp"

namespace unisono {
namespace {

UNISONO_KNOB(std::string, kTransport, "UNISONO_TRANSPORT", "",
             "how ranks reach each other: shm (shared memory), tcp, or ^shm (anything else); empty "
             "= shared memory on one host, TCP between hosts. The same on all ranks");

// For operations that were not waited for, whose peers may be about to come; several groups go
// within the two seconds in which a process ends.
constexpr Milliseconds kGrace{500};
// For an operation to notice that its group has failed. It does between two pieces of data, but a
// piece may be large, and its memory must not go before.
constexpr Milliseconds kTimeForAPiece{30'000};

std::vector<int> globalRanksOf(const BackendParams& params) {
  std::vector<int> ranks = params.options.globalRanks;
  if (ranks.empty()) {
    ranks.resize(static_cast<std::size_t>(params.size));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  return ranks;
}

enum class Ways : std::uint8_t { ANY, SHM, TCP };

Ways allowedWays() {
  const std::string setting = kTransport.value();
  if (setting.empty()) {
    return Ways::ANY;
  }
  if (setting == "shm") {
    return Ways::SHM;
  }
  if (setting == "tcp" || setting == "^shm") {
    return Ways::TCP;
  }
  throw UsageError({.reason = Reason::CONFIG,
                    .what = str("UNISONO_TRANSPORT is '", setting, "', which is no transport"),
                    .hint = "set it to shm, tcp or ^shm, or unset it"});
}

/// What ranks that share memory cannot do without, and do not get here; empty: nothing.
std::string_view whatIsDenied() noexcept {
  return SharedMemory::isDenied() ? "memfd_create" : areLocalSocketsDenied() ? "local sockets" : "";
}

/// Ranks that compare their calls would wait for those that do not: all do, or none.
std::string_view checksOfCalls() {
  return debugLevel() == DebugLevel::DETAIL ? " debug=detail" : "";
}

}  // namespace

Engine::Engine(const BackendParams& params)
    : rank(params.rank), group(params.options.groupName), globalRanks(globalRanksOf(params)) {}

FormOptions Engine::formOptions(const BackendParams& params) const {
  return {.store = params.store,
          .rank = params.rank,
          .size = params.size,
          .group = params.options.groupName,
          .settings = str(selector.settings(), checksOfCalls()),
          .timeout = params.options.timeout,
          .globalRanks = params.options.globalRanks,
          .mayUseTcp = allowedWays() != Ways::SHM};
}

std::shared_ptr<Engine> Engine::make(const BackendParams& params) {
  const Ways ways = allowedWays();
  if (ways == Ways::TCP) {
    return MeshEngine::make(params);
  }
  if (const std::string_view why = whatIsDenied(); ways == Ways::ANY && !why.empty()) {
    UNISONO_LOG(WARN, "backend", "group '", params.options.groupName,
                "' cannot use shared memory: the system denies ", why, " to rank ", params.rank,
                "; by TCP, then");
    return MeshEngine::make(params);  // which tells the others so
  }
  const TimePoint start = systemClock().now();
  try {
    return ShmEngine::make(params);
  } catch (const NoSharedMemory& error) {
    if (ways == Ways::SHM) {
      throw;
    }
    if (error.reason() == Reason::RESOURCE) {  // what this rank lacks
      UNISONO_LOG(WARN, "backend", "group '", params.options.groupName,
                  "' cannot use shared memory: ", error.facts().what, "; by TCP, then");
    } else {
      UNISONO_LOG(INFO, "backend", error.facts().what, "; by TCP, then");
    }
    return MeshEngine::make(params, error.cookie(), elapsedSince(start));
  }
}

void Engine::close(const std::exception_ptr& reason) {
  // Both, before either is waited for: a callback may wait for something of the other.
  lane.close(reason);
  mail().close(reason);
}

void Engine::end() {
  const bool idle = lane.drain(Deadline::after(kGrace), false);
  close(std::make_exception_ptr(DistBackendError(
      {.reason = Reason::SHUTDOWN, .what = "the group is being destroyed", .group = group})));
  if (!idle) {
    // Not only the lane's own threads: somebody who waits may be driving.
    fail({.reason = Reason::PEER_LEFT,
          .culprits = {rank},
          .reporter = rank,
          .seq = 0,
          .text = str("rank ", globalRanks[static_cast<std::size_t>(rank)],
                      " has let go of the group while operations were under way")});
    static_cast<void>(lane.drain(Deadline::after(kTimeForAPiece), false));
  }
  lane.end();
  static_cast<void>(mail().settle(Deadline::after(kGrace)));
  mail().end();
  leave();
}

}  // namespace unisono

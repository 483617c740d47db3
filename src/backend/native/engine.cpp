#include "backend/native/engine.hpp"

#include <numeric>

#include "base/str.hpp"

namespace unisono {
namespace {

// For operations that were not waited for, whose peers may be about to come; several groups go
// within the two seconds in which a process ends.
constexpr Milliseconds kGrace{500};
// For an operation to notice that its group has failed. It does between two pieces of data, but a
// piece may be large, and its memory must not go before.
constexpr Milliseconds kTimeToFail{30'000};

std::vector<int> globalRanksOf(const BackendParams& params) {
  std::vector<int> ranks = params.options.globalRanks;
  if (ranks.empty()) {
    ranks.resize(static_cast<std::size_t>(params.size));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  return ranks;
}

FormOptions formOptions(const BackendParams& params, const Selector& selector) {
  return {.store = params.store,
          .rank = params.rank,
          .size = params.size,
          .group = params.options.groupName,
          .settings = selector.settings(),
          .timeout = params.options.timeout,
          .globalRanks = params.options.globalRanks};
}

}  // namespace

std::shared_ptr<Engine> Engine::make(const BackendParams& params) {
  auto engine = std::make_shared<Engine>(params);
  engine->lane.belongTo(engine);
  engine->mail.belongTo(engine);
  return engine;
}

Engine::Engine(const BackendParams& params)
    : globalRanks(globalRanksOf(params)),
      segment(shm::Segment::form(formOptions(params, selector))),
      arena(
          *segment,
          {.cores = segment->cores(), .globalRanks = globalRanks, .describe = Executor::describe}),
      executor(arena, selector),
      lane("unisono-lane"),
      mail(*segment, segment->cores(), globalRanks) {}

void Engine::end() {
  const bool idle = lane.drain(Deadline::after(kGrace), false);
  const auto reason =
      std::make_exception_ptr(DistBackendError({.reason = Reason::SHUTDOWN,
                                                .what = "the group is being destroyed",
                                                .group = segment->group()}));
  // Both, before either is waited for: a callback may wait for something of the other.
  lane.close(reason);
  mail.close(reason);
  if (!idle) {
    // Not only the lane's own threads: somebody who waits may be driving.
    arena.wait().fail({.reason = Reason::PEER_LEFT,
                       .culprits = {arena.rank()},
                       .reporter = arena.rank(),
                       .seq = 0,
                       .text = str("rank ", globalRanks[static_cast<std::size_t>(arena.rank())],
                                   " has let go of the group while operations were under way")});
    static_cast<void>(lane.drain(Deadline::after(kTimeToFail), false));
  }
  lane.end();
  mail.end();
  segment->leave();
}

}  // namespace unisono

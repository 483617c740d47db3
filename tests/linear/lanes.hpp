// Lanes: calls of which the order among each other is known.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "linear/history.hpp"

namespace unisono::linear {

/// Calls of one client that were answered; or calls without an answer that would all do the same,
/// so that one that began earlier will do for one that began later.
struct Lane {
  struct Call {
    const Event* event;
    std::int64_t start;
    std::int64_t end;  // not after those behind it
  };
  std::vector<Call> calls;
  bool answered = true;
  std::size_t done = 0;

  bool finished() const { return done == calls.size(); }
  const Call& head() const { return calls[done]; }
};

/// All calls but looks without an answer, which say nothing. `alike`: whether a call writes values
/// that are as good as any others if nobody saw them.
std::vector<Lane> makeLanes(const std::vector<const Event*>& events,
                            const std::function<bool(const Event&)>& alike);

}  // namespace unisono::linear

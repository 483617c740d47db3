// Windows of calls on a queue: when they can have happened, given what came out and in which order.
#pragma once

#include <cstdint>
#include <vector>

#include "linear/history.hpp"

namespace unisono::linear {

/// What to suppose of calls without an answer. A wrong guess loses orders; it makes up none.
enum class Guess : std::uint8_t {
  NOTHING,
  /// A pop took an element that never came out although one from behind it did, the earliest pop
  /// the first of them.
  LOST,
  /// That, and other calls did not happen as long as elements went in that came out.
  LOST_AND_NO_MORE,
};

/// Copies of calls on one queue, each element of which went in once, with the latest start and the
/// earliest end that the others leave them: elements come out in the order in which they went in,
/// so what is known of one order holds for the other; and a push whose element came out has
/// happened by then, answered or not. Whatever order explains these explains `events`, and without
/// a guess none is lost.
std::vector<Event> narrowed(const std::vector<const Event*>& events, Guess guess);

}  // namespace unisono::linear

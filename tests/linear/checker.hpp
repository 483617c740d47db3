// The checker: was there an order in which a store that does one thing at a time would have given
// all these answers, each between the start and the end of its call?
//
// A search after Wing and Gong, with the memory of Lowe: places that were found to lead nowhere are
// not entered again. Keys that no call has in common are searched for themselves, and what the
// answers to come ask of the present (`Demand`) closes most wrong ways at their beginning.
#pragma once

#include <cstddef>
#include <string>

#include "linear/history.hpp"

namespace unisono::linear {

struct Verdict {
  enum class Kind : std::uint8_t { FINE, WRONG, TOO_LONG };
  Kind kind = Kind::FINE;
  std::size_t steps = 0;
  std::string why{};  // the calls among which no order was found

  bool isFine() const { return kind == Kind::FINE; }
};

/// Gives up, undecided, after `mostSteps` among keys that have to do with each other; the others
/// are looked at all the same, and one wrong answer among them is the verdict.
Verdict check(const History& history, std::size_t mostSteps = 20'000'000);

}  // namespace unisono::linear

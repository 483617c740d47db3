// Outcome: what a run of store_linearizability has shown.
#pragma once

#include <string>

#include "base/str.hpp"

namespace unisono::linear {

struct Outcome {
  long asked = 0;      // histories
  long histories = 0;  // that were made
  long undecided = 0;
  bool wrong = false;
  bool timeIsUp = false;      // before all were made
  bool timeWasGiven = false;  // by the caller, who then knows that there may be fewer
};

/// With what the program ends: 0 only when everything that was asked for was shown.
inline int exitCode(const Outcome& outcome) {
  if (outcome.wrong) {
    return 1;
  }
  const bool tooFew = outcome.timeIsUp && (!outcome.timeWasGiven || outcome.histories == 0);
  return outcome.undecided > 0 || tooFew ? 3 : 0;
}

/// What was not shown, for people; empty when nothing is missing.
inline std::string missing(const Outcome& outcome) {
  std::string text;
  if (outcome.undecided > 0) {
    text += str(outcome.undecided, " of ", outcome.histories, " histories stayed undecided");
  }
  if (outcome.timeIsUp) {
    text += str(text.empty() ? "" : "; ", "the time ended after ", outcome.histories, " of ",
                outcome.asked, " histories");
  }
  return text;
}

}  // namespace unisono::linear

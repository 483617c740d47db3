// torch.distributed with gloo as a contestant: its ranks run bench/collective/peers/torch_gloo.py.
#pragma once

#include <vector>

#include "bench/collective/contest.hpp"

namespace unisono::bench {

/// The program of such a rank.
extern const char* const kTorchGlooScript;

/// Adds the entrant, whose program is written into the scratch folder of `stage`; or why there is
/// none to `absent`.
void enterTorchGloo(const Stage& stage, std::vector<Entrant>& entrants,
                    std::vector<Absentee>& absent);

}  // namespace unisono::bench

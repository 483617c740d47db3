// Faults that are planted into the server, to see that the simulation finds them.
#pragma once

#include <vector>

#include "simulation/client.hpp"

namespace unisono::simulation {

const std::vector<Fault>& plantedFaults();

}  // namespace unisono::simulation

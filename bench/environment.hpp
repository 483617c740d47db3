// What the figures of a benchmark depend on, besides the code.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace unisono::bench {

using Facts = std::vector<std::pair<std::string, std::string>>;  // name and value

/// Processor, cores, kernel, huge pages, load, time.
Facts environment();

/// What the machine's processors have done since it was started.
struct ProcessorTime {
  double all = 0;     // in any unit
  double stolen = 0;  // of that: by other virtual machines
};
ProcessorTime processorTime();
/// The part that was stolen between the two, in percent.
double stolenPercent(const ProcessorTime& before, const ProcessorTime& after);

}  // namespace unisono::bench

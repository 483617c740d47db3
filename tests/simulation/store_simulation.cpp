// store_simulation: runs the simulation for many seeds.
//
//   store_simulation [--from SEED] [--seeds N] [--clients C] [--calls N] [--json]
//
// Ends with 1, and a line that names the seed, when a promise was broken; the same seed shows it
// again. Ends with 3 when of some seeds it was not decided whether the answers can be put in order.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "simulation/world.hpp"

namespace {

[[noreturn]] void usage() {
  static_cast<void>(
      std::fputs("usage: store_simulation [--from SEED] [--seeds N] [--clients C] [--calls N] "
                 "[--json]\n",
                 stderr));
  std::exit(2);
}

void add(unisono::simulation::Report& total, const unisono::simulation::Report& report) {
  total.violation = report.violation;
  total.calls += report.calls;
  total.canceled += report.canceled;
  total.cuts += report.cuts;
  total.pauses += report.pauses;
  total.deaths += report.deaths;
  total.lost += report.lost;
  total.slices += report.slices;
  total.undecided += report.undecided;
}

}  // namespace

int main(int count, char** arguments) {
  using namespace unisono;
  std::uint64_t from = 1;
  std::uint64_t seeds = 1000;
  simulation::Settings settings;
  bool json = false;
  for (int i = 1; i < count; ++i) {
    const std::string_view name = arguments[i];
    if (name == "--json") {
      json = true;
      continue;
    }
    if (i + 1 == count) {
      usage();
    }
    const std::uint64_t value = std::strtoull(arguments[++i], nullptr, 10);
    if (name == "--from") {
      from = value;
    } else if (name == "--seeds") {
      seeds = value;
    } else if (name == "--clients") {
      settings.clients = static_cast<int>(value);
    } else if (name == "--calls") {
      settings.callsEach = static_cast<int>(value);
    } else {
      usage();
    }
  }
  const TimePoint start = systemClock().now();
  simulation::Report total;
  for (settings.seed = from; settings.seed < from + seeds && total.violation.empty();
       ++settings.seed) {
    const simulation::Report report = simulation::World(settings).run();
    add(total, report);
  }
  const double seconds = std::chrono::duration<double>(systemClock().now() - start).count();
  const auto played = static_cast<double>(settings.seed - from);
  std::printf(
      json ? R"({"schema":"unisono-store-simulation/1","from":%ju,"seeds":%ju,)"
             R"("calls":%zu,"canceled":%zu,"cuts":%zu,"pauses":%zu,"server_deaths":%zu,)"
             R"("calls_lost":%zu,"slices":%zu,"undecided":%zu,"violations":%d,)"
             R"("seeds_per_minute":%.0f})"
             "\n"
           : "from seed %ju: %ju seeds, %zu calls, %zu canceled waits, %zu cuts, "
             "%zu pauses, %zu deaths of the server, %zu calls lost, %zu slices, %zu undecided, %d "
             "violations; %.0f seeds a minute\n",
      std::uintmax_t{from}, std::uintmax_t{settings.seed - from}, total.calls, total.canceled,
      total.cuts, total.pauses, total.deaths, total.lost, total.slices, total.undecided,
      total.violation.empty() ? 0 : 1, played * 60 / seconds);
  if (!total.violation.empty()) {
    static_cast<void>(std::fprintf(stderr, "store_simulation: %s\n", total.violation.c_str()));
    return 1;
  }
  return total.undecided > 0 ? 3 : 0;
}

// shm_explore: explores the protocols in shared memory.
//
//   shm_explore [--thorough] [--most N] [--seeds N] [--from SEED] [--only NAME] [--replay SCHEDULE]
//
// --most bounds the runs of each scenario, --seeds adds runs by chance. Prints a table in Markdown.
// Ends with 1, and the schedule that shows it again, when a promise was broken.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "explore/scenarios.hpp"

namespace {

using namespace unisono;
using namespace unisono::explore;

struct Settings {
  bool thorough = false;
  std::uint64_t most = ~std::uint64_t{0};
  std::uint64_t from = 1;
  std::uint64_t seeds = 0;
  std::string only;
  std::string replay;
};

[[noreturn]] void usage() {
  static_cast<void>(
      std::fputs("usage: shm_explore [--thorough] [--most N] [--seeds N] [--from SEED] "
                 "[--only NAME] [--replay SCHEDULE]\n",
                 stderr));
  std::exit(2);
}

Settings settingsFrom(int count, char** arguments) {
  Settings settings;
  for (int i = 1; i < count; ++i) {
    const std::string_view name = arguments[i];
    if (name == "--thorough") {
      settings.thorough = true;
      continue;
    }
    if (i + 1 == count) {
      usage();
    }
    const char* value = arguments[++i];
    if (name == "--most") {
      settings.most = std::strtoull(value, nullptr, 10);
    } else if (name == "--from") {
      settings.from = std::strtoull(value, nullptr, 10);
    } else if (name == "--seeds") {
      settings.seeds = std::strtoull(value, nullptr, 10);
    } else if (name == "--only") {
      settings.only = value;
    } else if (name == "--replay") {
      settings.replay = value;
    } else {
      usage();
    }
  }
  return settings;
}

/// Explores one scenario and prints its row; false when a promise was broken.
bool row(const std::string& name, Stage& stage, const Efforts& efforts, const Settings& settings,
         Figures& total) {
  if (!settings.replay.empty()) {
    Script script(settings.replay);
    const Run run = stage.play(script);
    std::printf("%s: %s\n", name.c_str(), run.broken.empty() ? "good" : run.broken.c_str());
    return run.broken.empty();
  }
  const Effort& effort = settings.thorough ? efforts.thorough : efforts.quick;
  Figures figures = examine(stage, effort, settings.most);
  if (figures.broken.empty() && settings.seeds > 0) {
    figures.add(gamble(stage, settings.from, settings.seeds, true));
  }
  std::printf("| %s | %d, %d%s | %" PRIu64 " | %" PRIu64 " | %" PRIu64 " |\n", name.c_str(),
              effort.calm, effort.beside, figures.whole ? "" : " in part", figures.runs,
              figures.kills, figures.longest);
  if (!figures.broken.empty()) {
    std::fprintf(stderr, "broken: %s\nto see it again: shm_explore --only '%s' --replay '%s'\n",
                 figures.broken.c_str(), name.c_str(), figures.schedule.c_str());
  }
  static_cast<void>(std::fflush(stdout));
  const bool good = figures.broken.empty();
  total.add(figures);
  return good;
}

}  // namespace

int main(int count, char** arguments) {
  const Settings settings = settingsFrom(count, arguments);
  ::setenv("UNISONO_LOG", "off", 1);
  std::printf(
      "| protocol | unusual things: calm, beside a kill | schedules | with a kill | "
      "longest, points |\n|---|---|---|---|---|\n");
  Figures total;
  bool good = true;
  const auto wanted = [&](std::string_view name) {
    return name.find(settings.only) != std::string_view::npos;
  };
  for (const Entry& entry : entries()) {
    if (good && wanted(entry.scenario.name)) {
      GroupStage stage(entry.scenario);
      good = row(std::string(entry.scenario.name), stage, entry.efforts, settings, total);
    }
  }
  for (const int ranks : {2, 3}) {
    const std::string name = "formation, " + std::to_string(ranks) + " ranks";
    if (good && wanted(name)) {
      FormationStage stage(ranks);
      const Efforts efforts{.quick = {ranks == 2 ? 2 : 1, ranks == 2 ? 1 : 0}, .thorough = {2, 1}};
      good = row(name, stage, efforts, settings, total);
    }
  }
  std::printf("| all | | %" PRIu64 " | %" PRIu64 " | %" PRIu64 " |\n", total.runs, total.kills,
              total.longest);
  return good ? 0 : 1;
}

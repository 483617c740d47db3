// unisono info: what this build is, and which environment variables it reads.

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/backend/backend_table.hpp"
#include "unisono/version.hpp"

#include "base/env.hpp"
#include "base/log.hpp"
#include "base/str.hpp"
#include "build_id.hpp"
#include "collective/links/selection.hpp"
#include "collective/thresholds.hpp"
#include "command.hpp"
#include "reduction/instruction_set.hpp"
#include "terminal.hpp"

namespace unisono::cli {
namespace {

struct InfoOptions : Manner {
  bool env = false;
  bool algorithms = false;
};

std::vector<const EnvEntry*> sortedKnobs() {
  const auto all = knownKnobs();
  std::vector<const EnvEntry*> knobs(all.begin(), all.end());
  std::sort(knobs.begin(), knobs.end(), [](const EnvEntry* a, const EnvEntry* b) {
    return std::string_view(a->name) < b->name;
  });
  return knobs;
}

/// What may be shown of a variable; null when it is not set.
const char* shownValue(const EnvEntry& knob) {
  const char* value = std::getenv(knob.name);
  const bool isSecret = std::string_view(knob.name) == "UNISONO_AUTH_SECRET";
  return value != nullptr && isSecret ? "(not shown)" : value;
}

nlohmann::json describeKnobs() {
  nlohmann::json list = nlohmann::json::array();
  for (const EnvEntry* knob : sortedKnobs()) {
    const char* value = shownValue(*knob);
    list.push_back({{"name", knob->name},
                    {"default", knob->fallback},
                    {"value", value == nullptr ? nlohmann::json() : nlohmann::json(value)},
                    {"doc", knob->doc}});
  }
  return list;
}

nlohmann::json toJson(const std::vector<ThresholdLine>& lines) {
  nlohmann::json list = nlohmann::json::array();
  for (const ThresholdLine& line : lines) {
    list.push_back({{"op", line.operation}, {"algorithm", line.algorithm}, {"when", line.when}});
  }
  return list;
}

nlohmann::json describeAlgorithms() {
  return {{"family", thresholds().family},
          {"lines", toJson(describe(thresholds()))},
          {"tcp", toJson(links::LinkSelector::describe())}};
}

void printAlgorithms(const std::vector<ThresholdLine>& lines) {
  for (const ThresholdLine& line : lines) {
    printLine(str("    ", line.operation, " by ", line.algorithm, ": ", line.when));
  }
}

void printAlgorithms() {
  printLine(str("\nWhat is taken on this processor (family ", thresholds().family,
                "), unless UNISONO_ALGO says otherwise, on one host:"));
  printAlgorithms(describe(thresholds()));
  printLine("\nBetween hosts, and wherever ranks reach each other by TCP:");
  printAlgorithms(links::LinkSelector::describe());
}

/// What this build is, and what of it is used on this machine: by name.
std::vector<std::pair<std::string, std::string>> facts() {
#if defined(__clang__)
  const std::string compiler = str("Clang ", __clang_version__);
#else
  const std::string compiler = str("GCC ", __VERSION__);
#endif
#ifdef NDEBUG
  constexpr const char* kAssertions = "off";
#else
  constexpr const char* kAssertions = "on";
#endif
  return {{"source", kBuildId},        {"compiler", compiler},
          {"assertions", kAssertions}, {"vectors", instructionSets().front()},
          {"transports", "shm, tcp"},  {"backends", join(knownBackends(), ", ")}};
}

/// A variable may hold any bytes, JSON only UTF-8.
std::string toText(const nlohmann::json& document) {
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Logs nothing but a wrong UNISONO_LOG, so -v and -q change no variable that it is about to show.
void printInfo(const InfoOptions& options) {
  watchSignals();
  setColor(options.color);
  if (!options.quiet) {
    static_cast<void>(logEnabled(LogLevel::WARN, "cli"));
  }
  if (options.json) {
    nlohmann::json document = {{"schema", "unisono-info/1"}, {"version", UNISONO_VERSION_STRING}};
    for (const auto& [name, what] : facts()) {
      document[name] = what;
    }
    if (options.env) {
      document["env"] = describeKnobs();
    }
    if (options.algorithms) {
      document["algorithms"] = describeAlgorithms();
    }
    printLine(toText(document));
    return;
  }
  printLine(str("unisono ", UNISONO_VERSION_STRING));
  for (auto& [name, what] : facts()) {
    name.resize(12, ' ');
    printLine(str("    ", name, what));
  }
  if (options.algorithms) {
    printAlgorithms();
  }
  if (!options.env) {
    return;
  }
  for (const EnvEntry* knob : sortedKnobs()) {
    const char* value = shownValue(*knob);
    printLine(str("\n", knob->name, " = ", value == nullptr ? knob->fallback : value,
                  value == nullptr ? colored(Color::FAINT, " (default)") : "", "\n    ",
                  knob->doc));
  }
}

}  // namespace

void addInfo(CLI::App& program, Context& context) {
  CLI::App* command =
      program.add_subcommand("info", "Show what this build is, and the environment");
  const auto options = std::make_shared<InfoOptions>();
  command->add_flag("--env", options->env, "List every environment variable that is read");
  command->add_flag("--algorithms", options->algorithms,
                    "List which algorithm is taken when, on this processor");
  command->footer("Example:\n  unisono info --env");
  command->callback([options, &context] {
    static_cast<Manner&>(*options) = context.manner;
    printInfo(*options);
  });
}

}  // namespace unisono::cli

// unisono doctor: what of this machine stands in the way, and what to do about it.

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "unisono/version.hpp"

#include "base/str.hpp"
#include "command.hpp"
#include "doctor_checks.hpp"
#include "terminal.hpp"

namespace unisono::cli {
namespace {

using State = Finding::State;

struct DoctorOptions : Manner {
  Patient patient;
};

std::string_view wordFor(State state) {
  return state == State::OK ? "ok" : state == State::WARN ? "warn" : "fail";
}

void printFinding(const Check& check, const Finding& finding) {
  const Color color = finding.state == State::OK     ? Color::GREEN
                      : finding.state == State::WARN ? Color::YELLOW
                                                     : Color::RED;
  std::string word(wordFor(finding.state));
  word.resize(4, ' ');
  std::string name = check.name;
  name.resize(std::max<std::size_t>(name.size(), 13), ' ');
  printLine(str(colored(color, word), "  ", name, "  ", printable(finding.what),
                finding.remedy.empty() ? "" : " — ", printable(finding.remedy)));
}

int run(const DoctorOptions& options) {
  watchSignals();
  setColor(options.color);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  State worst = State::OK;
  for (const Check& check : checks()) {
    throwIfInterrupted();
    const Finding finding = check.look(options.patient);
    worst = std::max(worst, finding.state);
    if (options.json) {
      list.push_back({{"check", check.name},
                      {"state", wordFor(finding.state)},
                      {"what", finding.what},
                      {"remedy", finding.remedy}});
    } else if (!options.quiet || finding.state != State::OK) {
      printFinding(check, finding);
    }
  }
  if (options.json) {
    const nlohmann::ordered_json document = {{"schema", "unisono-doctor/1"},
                                             {"version", UNISONO_VERSION_STRING},
                                             {"state", wordFor(worst)},
                                             {"checks", list}};
    printLine(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return worst == State::FAIL ? FAILURE : OK;
}

}  // namespace

void addDoctor(CLI::App& program, Context& context) {
  CLI::App* command = program.add_subcommand(
      "doctor", "Look for what stands in the way on this machine, and say what to do about it");
  const auto options = std::make_shared<DoctorOptions>();
  command->add_option("--root", options->patient.root)->group("");  // for tests
  command->footer(
      "Its exit code is 1 when something fails; -q shows only what is not well.\n"
      "Example:\n  unisono doctor --json");
  command->callback([options, &context] {
    static_cast<Manner&>(*options) = context.manner;
    context.exitCode = run(*options);
  });
}

}  // namespace unisono::cli

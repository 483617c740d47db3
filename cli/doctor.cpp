// unisono doctor: what of this machine stands in the way, and what to do about it.

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/version.hpp"

#include "base/str.hpp"
#include "command.hpp"
#include "doctor_checks.hpp"
#include "number.hpp"
#include "terminal.hpp"

namespace unisono::cli {
namespace {

using State = Finding::State;

struct DoctorOptions : Manner {
  Patient patient;
  std::vector<std::string> hosts;
  std::uint16_t port = 29500;
  bool net = false;
};

std::string_view wordFor(State state) {
  return state == State::OK ? "ok" : state == State::WARN ? "warn" : "fail";
}

void printFinding(const std::string& check, const Finding& finding) {
  const Color color = finding.state == State::OK     ? Color::GREEN
                      : finding.state == State::WARN ? Color::YELLOW
                                                     : Color::RED;
  std::string word(wordFor(finding.state));
  word.resize(4, ' ');
  std::string name = printable(check);
  name.resize(std::max<std::size_t>(name.size(), 13), ' ');
  printLine(str(colored(color, word), "  ", name, "  ", printable(finding.what),
                finding.remedy.empty() ? "" : " — ", printable(finding.remedy)));
}

int run(const DoctorOptions& options) {
  watchSignals();
  setColor(options.color);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  State worst = State::OK;
  const auto tell = [&](const std::string& check, const Finding& finding) {
    worst = std::max(worst, finding.state);
    if (options.json) {
      list.push_back({{"check", check},
                      {"state", wordFor(finding.state)},
                      {"what", finding.what},
                      {"remedy", finding.remedy}});
    } else if (!options.quiet || finding.state != State::OK) {
      printFinding(check, finding);
    }
    throwIfInterrupted();
  };
  bool tells = true;
  const std::optional<Finding> job = options.net ? std::optional(lookAtJob(tells)) : std::nullopt;
  if (!tells) {
    return OK;
  }
  for (const Check& check : checks()) {
    tell(check.name, check.look(options.patient));
  }
  for (const std::string& host : options.hosts) {
    tell(str("host ", host), lookAtHost(host, options.port));
  }
  if (job) {
    tell("job", *job);
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
  command
      ->add_option("--hosts", options->hosts,
                   "Also whether these hosts are found, and let TCP through")
      ->delimiter(',');
  command->add_option("--port", options->port, "At which port they are asked")
      ->transform(wholeNumber(1, 65'535))
      ->capture_default_str();
  command->add_flag("--net", options->net,
                    "Also whether the ranks of the job it is started in reach each other, and what "
                    "their clocks say; rank 0 tells");
  command->footer(
      "Its exit code is 1 when something fails; -q shows only what is not well.\n"
      "Examples:\n  unisono doctor --json\n"
      "  unisono doctor --hosts node1,node2\n"
      "  srun --ntasks-per-node=1 unisono doctor --net");
  command->callback([options, &context] {
    static_cast<Manner&>(*options) = context.manner;
    context.exitCode = run(*options);
  });
}

}  // namespace unisono::cli

// unisono run: a program as the ranks of a job.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "unisono/base/error.hpp"

#include "base/host.hpp"
#include "base/random.hpp"
#include "base/str.hpp"
#include "command.hpp"
#include "launch/binding.hpp"
#include "launch/excerpt.hpp"
#include "launch/plan.hpp"
#include "launch/supervisor.hpp"
#include "run_options.hpp"
#include "run_report.hpp"
#include "terminal.hpp"

namespace unisono::cli {
namespace {

constexpr std::uint16_t kDefaultPort = 29500;
constexpr int kMostWorkers = 4096;

[[noreturn]] void refuse(std::string what, std::string hint) {
  throw UsageError({.reason = Reason::USAGE, .what = std::move(what), .hint = std::move(hint)});
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped == end ? std::optional(value) : std::nullopt;
}

/// How many GPUs of NVIDIA's there are; of them, as many as CUDA_VISIBLE_DEVICES names.
int gpuCount() {
  int count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename().string();
    count += name.starts_with("nvidia") && number(name.substr(6)) ? 1 : 0;
  }
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (count == 0 || visible == nullptr) {
    return count;
  }
  const std::string_view list = visible;
  return list.empty() ? 0 : 1 + static_cast<int>(std::count(list.begin(), list.end(), ','));
}

int workersOf(const std::string& text) {
  if (text == "cpu") {
    return usableCores();
  }
  if (text == "numa") {
    return launch::nodeCount(launch::coresOfHost());
  }
  if (text == "gpu" || text == "auto" || text == "xpu") {
    const int gpus = text == "xpu" ? 0 : gpuCount();
    if (gpus == 0 && text != "auto") {
      refuse(str("-n ", text, ": there is none here"), "give a number, or cpu for one per core");
    }
    return gpus == 0 ? usableCores() : gpus;
  }
  const std::optional<int> count = number(text);
  if (!count || *count < 1 || *count > kMostWorkers) {
    refuse(str("-n ", text, " is no number of ranks"),
           str("give 1 to ", kMostWorkers, ", or cpu for one per core"));
  }
  return *count;
}

/// As in torchrun "4" or "4:4"; the number of nodes cannot change while a job runs.
int nodesOf(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::optional<int> least = number(text.substr(0, colon));
  const std::optional<int> most =
      colon == std::string_view::npos ? least : number(text.substr(colon + 1));
  if (!least || !most || *least < 1 || *least != *most) {
    refuse(str("--nnodes ", text, " is no number of nodes"), "give one number, 1 or more");
  }
  return *least;
}

HostPort endpointOf(const RunArgs& args) {
  if (args.endpoint.empty()) {
    return {args.masterAddress, args.masterPort.value_or(kDefaultPort)};
  }
  const bool hasPort = args.endpoint.find("]:") != std::string::npos ||
                       std::count(args.endpoint.begin(), args.endpoint.end(), ':') == 1;
  return hasPort ? parseHostPort(args.endpoint)
                 : HostPort{args.endpoint, args.masterPort.value_or(kDefaultPort)};
}

/// Which ranks there are, and where they meet: a job of one node without an address takes a free
/// port, as torchrun has it.
void place(const RunArgs& args, launch::Job& job) {
  job.nodes = nodesOf(args.nodes);
  job.nodeRank = args.nodeRank;
  if (job.nodeRank >= job.nodes) {
    refuse(str("--node-rank ", job.nodeRank, " is out of range in a job of ", job.nodes,
               job.nodes == 1 ? " node" : " nodes"),
           "count nodes from 0, and give --nnodes");
  }
  const bool alone = args.standalone || (args.endpoint.empty() && !args.masterPort);
  if (job.nodes == 1 && alone) {
    job.store = {"localhost", 0};
    job.runId = args.runId.empty() ? randomId() : args.runId;
    return;
  }
  if (args.standalone) {
    refuse("--standalone is for one node", "leave it out, and give --master-addr");
  }
  if (job.nodes > 1 && args.backend != "static") {
    refuse(str("--rdzv-backend ", args.backend, " cannot find the ranks of several nodes"),
           "leave it out, and give --node-rank and --master-addr on every node");
  }
  if (job.nodes > 1 && args.maxRestarts > 0) {
    refuse("--max-restarts is for one node", "leave it out, or start the nodes anew yourself");
  }
  job.store = endpointOf(args);
  job.runId = args.runId.empty() ? "none" : args.runId;
}

std::vector<int> signalsOf(const std::string& names) {
  std::vector<int> signals;
  for (std::string_view left = names; !left.empty();) {
    const std::string_view name = left.substr(0, left.find(','));
    const std::optional<int> found = launch::signalNumber(name);
    if (!found || *found == SIGKILL || *found == SIGSTOP || *found == SIGCHLD) {
      refuse(str("--signals-to-handle: '", name, "' is no signal that can be handled"),
             "give names such as SIGTERM,SIGUSR1");
    }
    signals.push_back(*found);
    left.remove_prefix(std::min(left.size(), name.size() + 1));
  }
  return signals;
}

int threadsOf(const std::string& text, int workers) {
  if (text == "auto") {
    return workers == 1 ? 0 : std::max(1, usableCores() / workers);
  }
  const std::optional<int> count = number(text);
  if (!count || *count < 1) {
    refuse(str("--threads ", text, " is no number of threads"), "give 1 or more, or auto");
  }
  return *count;
}

/// Those of what was given that have no meaning here, in words.
std::string idleText(const RunArgs& args) {
  std::vector<std::string> names = args.idle;
  if (!args.rendezvousConfig.empty()) {
    names.emplace_back("--rdzv-conf");
  }
  return names.empty()
             ? ""
             : str(join(names, ", "), names.size() == 1 ? " changes" : " change", " nothing here");
}

/// As in torchrun "key=value,…".
void checkConfig(std::string_view text) {
  for (std::string_view left = text; !left.empty();) {
    const std::string_view pair = left.substr(0, left.find(','));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      refuse(str("--rdzv-conf ", text, " makes no sense"), "give key=value,key=value");
    }
    left.remove_prefix(std::min(left.size(), pair.size() + 1));
  }
}

/// Of --env NAME=VALUE; what ranks are told by their launcher is not the user's to choose.
launch::Variables variablesOf(const std::vector<std::string>& words) {
  const launch::Variables ours = launch::variablesOf({}, 0, 0, {}, "");
  launch::Variables variables;
  for (const std::string& word : words) {
    const std::size_t end = word.find('=');
    if (end == std::string::npos || end == 0) {
      refuse(str("--env ", word, " gives no variable a value"), "give NAME=VALUE");
    }
    const std::string name = word.substr(0, end);
    if (ours.contains(name) && name != "TORCH_NCCL_ASYNC_ERROR_HANDLING") {
      refuse(str("--env ", name, " is for the launcher to set"), "leave it out");
    }
    variables[name] = word.substr(end + 1);
  }
  return variables;
}

launch::Job jobOf(const RunArgs& args, const std::vector<std::string>& words) {
  if (words.empty() || words.front().empty()) {
    refuse("no program was given", "name it after the options: unisono run -n 4 train.py");
  }
  if (args.module && args.noPython) {
    refuse("--module and --no-python contradict each other", "leave one of them out");
  }
  checkConfig(args.rendezvousConfig);
  launch::Job job;
  job.workers = workersOf(args.workers);
  place(args, job);
  job.maxRestarts = args.maxRestarts;
  job.threads = threadsOf(args.threads, job.workers);
  job.role = args.role;
  job.signals = args.signals;
  job.redirects = launch::parseStreams("--redirects", args.redirects, job.workers);
  job.tee = launch::parseStreams("--tee", args.tee, job.workers);
  job.shown = launch::parseRanks("--local-ranks-filter", args.shown, job.workers);
  job.input = args.input == "none"  ? launch::Input::NOBODY
              : args.input == "all" ? launch::Input::ALL
                                    : launch::Input::RANK_0;
  job.outputWords = launch::parseWords(args.outputWords);
  job.errorWords = launch::parseWords(args.errorWords);
  job.variables = variablesOf(args.variables);
  job.binding = launch::bindingNamed(args.binding).value_or(launch::Binding::NONE);
  job.virtualLocalRank = args.virtualLocalRank;
  job.localAddress = args.localAddress;
  job.interface = args.interface;
  job.bind = args.bind;
  job.command = launch::commandFor(args.module     ? launch::Program::MODULE
                                   : args.noPython ? launch::Program::AS_IS
                                                   : launch::Program::BY_NAME,
                                   words);
  return job;
}

void printPlan(const launch::Job& job) {
  const launch::Places places{
      .master = job.store, .store = job.store, .secretFile = {}, .ownAddress = {}};
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (int localRank = 0; localRank < job.workers; ++localRank) {
    launch::Variables variables = launch::variablesOf(job, localRank, 0, places, "");
    variables.erase("TORCHELASTIC_ERROR_FILE");  // its folder has not been made
    ranks.push_back({{"rank", job.rankOf(localRank)}, {"environment", variables}});
  }
  const nlohmann::ordered_json document = {{"schema", "unisono-run-plan/1"},
                                           {"command", job.command},
                                           {"store", str("tcp://", job.store.text())},
                                           {"serves_store", job.nodeRank == 0},
                                           {"ranks", ranks}};
  printLine(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

int runJob(const RunArgs& args, const std::vector<std::string>& words) {
  doWithoutOutput();
  watchSignals();  // without begin(): what it sets in the environment the ranks would inherit
  setColor(args.color);
  launch::Job job = jobOf(args, words);
  if (args.dryRun) {
    printPlan(job);
    return OK;
  }
  const auto any = [](const std::vector<unsigned>& streams) {
    return std::any_of(streams.begin(), streams.end(), [](unsigned bits) { return bits != 0; });
  };
  const bool keepLogs = !args.logDir.empty() || any(job.redirects) || any(job.tee);
  const std::string usual = job.nodes == 1 ? "[{rank}]" : "{host}:{rank}:";
  const std::string prefix = args.prefix.empty() ? usual : args.prefix;
  launch::Supervisor supervisor(
      {.job = std::move(job),
       .grace = Milliseconds(static_cast<std::int64_t>(args.grace * 1000)),
       .signals = signalsOf(args.signals),
       .logFolder = args.logDir,
       .keepLogs = keepLogs,
       .quiet = args.quiet || args.json,
       .oneStream = args.json,
       .format = lineFormat(args, prefix)});
  throwIfInterrupted();  // a signal that came before they were the supervisor's
  if (const std::string idle = idleText(args); !idle.empty()) {
    supervisor.say(idle);
  }
  if (keepLogs) {
    supervisor.say(str("the logs are in ", supervisor.folder()));
  }
  return tellEnd(args, supervisor.run());
}

}  // namespace

void addRun(CLI::App& program, Context& context) {
  CLI::App* command =
      program.add_subcommand("run", "Start a program as the ranks of a job, as torchrun does");
  const auto args = std::make_shared<RunArgs>();
  takeRunOptions(*command, *args);
  // Only for the help: its words never reach the parser.
  command->add_option("PROGRAM", "A program, or a Python script (.py), and its arguments");
  command->footer("Example:\n  unisono run -n 4 train.py --epochs 3");
  command->callback([args, &context] {
    static_cast<Manner&>(*args) = context.manner;
    context.exitCode = runJob(*args, context.toStart);
  });
}

}  // namespace unisono::cli

// unisono run: a program as the ranks of a job.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include "unisono/base/error.hpp"

#include "base/host.hpp"
#include "base/random.hpp"
#include "base/str.hpp"
#include "command.hpp"
#include "launch/plan.hpp"
#include "launch/supervisor.hpp"
#include "number.hpp"
#include "run_report.hpp"
#include "terminal.hpp"

namespace unisono::cli {
namespace {

constexpr std::uint16_t kDefaultPort = 29500;
constexpr int kMostWorkers = 4096;

struct RunArgs : Manner {
  std::string workers = "1";
  bool module = false;
  bool noPython = false;
  std::string threads = "auto";
  std::string input = "0";
  std::vector<std::string> variables;
  std::string prefix = "[{rank}]";

  int maxRestarts = 0;
  double grace = 30;
  std::string signals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";

  std::string logDir;
  std::string redirects = "0";
  std::string tee = "0";
  std::string shown;

  std::string nodes = "1";
  int nodeRank = 0;
  std::string masterAddress = "127.0.0.1";
  std::optional<std::uint16_t> masterPort;
  std::string endpoint;
  std::string bind;
  std::string runId;
  std::string backend = "static";
  std::string role = "default";
  bool standalone = false;
  std::string ignored;  // options that change nothing here

  bool dryRun = false;
};

[[noreturn]] void refuse(std::string what, std::string hint) {
  throw UsageError({.reason = Reason::USAGE, .what = std::move(what), .hint = std::move(hint)});
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped == end ? std::optional(value) : std::nullopt;
}

int workersOf(const std::string& text) {
  if (text == "auto" || text == "cpu") {
    return usableCores();
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
  job.variables = variablesOf(args.variables);
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
  launch::Supervisor supervisor(
      {.job = std::move(job),
       .grace = Milliseconds(static_cast<std::int64_t>(args.grace * 1000)),
       .signals = signalsOf(args.signals),
       .logFolder = args.logDir,
       .keepLogs = keepLogs,
       .quiet = args.quiet || args.json,
       .oneStream = args.json,
       .format = lineFormat(args, args.prefix)});
  throwIfInterrupted();  // a signal that came before they were the supervisor's
  if (keepLogs) {
    supervisor.say(str("the logs are in ", supervisor.folder()));
  }
  return tellEnd(args, supervisor.run());
}

void takeNodes(CLI::App& command, RunArgs& args) {
  constexpr const char* kGroup = "Several nodes: start it on each, with the same command";
  command.add_option("--nnodes", args.nodes, "How many nodes the job has")
      ->capture_default_str()
      ->group(kGroup);
  command.add_option("--node-rank", args.nodeRank, "Which of them this is, counted from 0")
      ->transform(wholeNumber(0, 1'000'000))
      ->capture_default_str()
      ->group(kGroup);
  command
      .add_option("--master-addr", args.masterAddress, "Address of node 0, which runs the store")
      ->capture_default_str()
      ->group(kGroup);
  command
      .add_option("--master-port", args.masterPort,
                  "Port of the store (default: a free one, with several nodes 29500)")
      ->transform(wholeNumber(0, 65'535))
      ->group(kGroup);
  command.add_option("--rdzv-endpoint", args.endpoint, "Both in one: host:port")->group(kGroup);
  command
      .add_option("--bind", args.bind,
                  "Address at which node 0 serves the store (default: its own; 0.0.0.0 for all)")
      ->group(kGroup);
  command.add_option("--rdzv-id", args.runId, "A name for the job (default: a random one)")
      ->group(kGroup);
}

void takeLogs(CLI::App& command, RunArgs& args) {
  constexpr const char* kGroup = "What the ranks print";
  command
      .add_option("--prefix", args.prefix,
                  "What lines begin with; {rank} and {host} are filled in; none for nothing")
      ->capture_default_str()
      ->group(kGroup);
  command
      .add_option("--log-dir", args.logDir, "Folder for log files; each job makes its own there")
      ->group(kGroup);
  command
      .add_option("-r,--redirects", args.redirects,
                  "Into files instead of here: 1 stdout, 2 stderr, 3 both; some ranks: 0:3,1:2")
      ->capture_default_str()
      ->group(kGroup);
  command.add_option("-t,--tee", args.tee, "Into files and here, given in the same way")
      ->capture_default_str()
      ->group(kGroup);
  command
      .add_option("--local-ranks-filter", args.shown,
                  "Show nothing here but what these local ranks print: 0,2 (default: all)")
      ->group(kGroup);
}

void takeLife(CLI::App& command, RunArgs& args) {
  command
      .add_option("--max-restarts", args.maxRestarts,
                  "Start all ranks anew when one fails, at most so often")
      ->transform(wholeNumber(0, 1'000'000))
      ->capture_default_str();
  if (const char* seconds = std::getenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT"); seconds != nullptr) {
    args.grace = number(seconds).value_or(30);
  }
  command
      .add_option("--grace,--shutdown-timeout", args.grace,
                  "Seconds that ranks have to end when they are told to; then they are killed")
      ->check(seconds())
      ->capture_default_str();
  command
      .add_option("--signals-to-handle", args.signals, "Signals that are passed on and end the job")
      ->capture_default_str();
}

/// What scripts written for torchrun may give, although there is nothing to choose here.
void takeOthers(CLI::App& command, RunArgs& args) {
  constexpr const char* kHidden = "";
  command.add_flag("--standalone", args.standalone)->group(kHidden);
  command.add_option("--rdzv-backend", args.backend)
      ->check(CLI::IsMember({"static", "c10d"}))
      ->group(kHidden);
  command.add_option("--monitor-interval", args.ignored)->group(kHidden);
  command.add_option("--start-method", args.ignored)->group(kHidden);
  command.add_option("--role", args.role)->group(kHidden);
}

}  // namespace

void addRun(CLI::App& program, Context& context) {
  CLI::App* command =
      program.add_subcommand("run", "Start a program as the ranks of a job, as torchrun does");
  const auto args = std::make_shared<RunArgs>();
  command
      ->add_option("-n,--nproc-per-node", args->workers,
                   "How many ranks to start; cpu for one per core")
      ->capture_default_str();
  command->add_flag("-m,--module", args->module, "PROGRAM is a Python module");
  command->add_flag("--no-python", args->noPython, "Execute PROGRAM itself even if it ends in .py");
  command
      ->add_option("--threads", args->threads,
                   "OMP_NUM_THREADS of each rank, unless it is set; auto: cores by ranks")
      ->capture_default_str();
  command->add_option("--env", args->variables, "NAME=VALUE for every rank; may be given again")
      ->allow_extra_args(false);
  command->add_option("--stdin", args->input, "Who reads what is given here: rank 0, all, or none")
      ->check(CLI::IsMember({"0", "all", "none"}))
      ->capture_default_str();
  takeLife(*command, *args);
  takeOthers(*command, *args);
  command->add_flag("--dry-run", args->dryRun, "Print what would be started, as JSON");
  takeLogs(*command, *args);
  takeNodes(*command, *args);
  // Only for the help: its words never reach the parser.
  command->add_option("PROGRAM", "A program, or a Python script (.py), and its arguments");
  command->footer("Example:\n  unisono run -n 4 train.py --epochs 3");
  command->callback([args, &context] {
    static_cast<Manner&>(*args) = context.manner;
    context.exitCode = runJob(*args, context.toStart);
  });
}

}  // namespace unisono::cli

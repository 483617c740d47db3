#include "run_options.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "number.hpp"

namespace unisono::cli {
namespace {

std::optional<int> secondsOf(std::string_view text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped == end ? std::optional(value) : std::nullopt;
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
  command
      .add_option("--local-addr", args.localAddress,
                  "Address of this node, at which ranks of others reach its ranks")
      ->group(kGroup);
  command.add_option("--ifname", args.interface, "The network interface at which they do")
      ->group(kGroup);
  command.add_option("--rdzv-id", args.runId, "A name for the job (default: a random one)")
      ->group(kGroup);
}

void takeLogs(CLI::App& command, RunArgs& args) {
  constexpr const char* kGroup = "What the ranks print";
  command
      .add_option("--prefix", args.prefix,
                  "What lines begin with; {rank} and {host} are filled in; none for nothing "
                  "(default: [{rank}], with several nodes {host}:{rank}:)")
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
  command
      .add_option("--duplicate-stdout-filters", args.outputWords,
                  "Of what --tee shows, lines with one of these words also go into "
                  "filtered_stdout.log: apple,orange")
      ->group(kGroup);
  command.add_option("--duplicate-stderr-filters", args.errorWords, "The same for standard error")
      ->group(kGroup);
}

void takeLife(CLI::App& command, RunArgs& args) {
  command
      .add_option("--max-restarts", args.maxRestarts,
                  "Start all ranks anew when one fails, at most so often")
      ->transform(wholeNumber(0, 1'000'000))
      ->capture_default_str();
  if (const char* seconds = std::getenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT"); seconds != nullptr) {
    args.grace = secondsOf(seconds).value_or(args.grace);
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

/// What scripts written for torchrun may give, although there is little to choose here.
void takeOthers(CLI::App& command, RunArgs& args) {
  constexpr const char* kHidden = "";
  command.add_flag("--standalone", args.standalone)->group(kHidden);
  command.add_option("--rdzv-backend", args.backend)
      ->check(CLI::IsMember({"static", "c10d"}))
      ->group(kHidden);
  command.add_option("--rdzv-conf", args.rendezvousConfig)->group(kHidden);
  command.add_option("--role", args.role)->group(kHidden);
  const auto idle = [&](const std::string& name) {
    return command
        .add_option_function<std::string>(
            name, [&args, name](const std::string& /*value*/) { args.idle.push_back(name); })
        ->group(kHidden);
  };
  idle("--monitor-interval")->check(CLI::NonNegativeNumber);
  idle("--start-method")->check(CLI::IsMember({"spawn", "fork", "forkserver"}));
  idle("--event-log-handler");
  idle("--logs-specs");
  command.add_flag_callback("--run-path", [&args] { args.idle.emplace_back("--run-path"); })
      ->group(kHidden);
}

void takeProgram(CLI::App& command, RunArgs& args) {
  command
      .add_option("-n,--nproc-per-node", args.workers,
                  "How many ranks to start; cpu, gpu, numa: one for each core, GPU, memory node; "
                  "auto: for each GPU, or core")
      ->capture_default_str();
  command.add_flag("-m,--module", args.module, "PROGRAM is a Python module");
  command.add_flag("--no-python", args.noPython, "Execute PROGRAM itself even if it ends in .py");
  command
      .add_option("--threads", args.threads,
                  "OMP_NUM_THREADS of each rank, unless it is set; auto: cores by ranks")
      ->capture_default_str();
  command
      .add_option("--numa-binding", args.binding,
                  "Bind each rank to the cores of a memory node: all of them (node), of its socket "
                  "(socket), some of its own (exclusive), or that share a cache (core-complex)")
      ->check(CLI::IsMember({"node", "socket", "exclusive", "core-complex"}));
  command.add_flag("--virtual-local-rank", args.virtualLocalRank,
                   "LOCAL_RANK is 0 for all, and each sees one GPU");
  command.add_option("--env", args.variables, "NAME=VALUE for every rank; may be given again")
      ->allow_extra_args(false);
  command.add_option("--stdin", args.input, "Who reads what is given here: rank 0, all, or none")
      ->check(CLI::IsMember({"0", "all", "none"}))
      ->capture_default_str();
}

}  // namespace

void takeRunOptions(CLI::App& command, RunArgs& args) {
  takeProgram(command, args);
  takeLife(command, args);
  takeOthers(command, args);
  command.add_flag("--dry-run", args.dryRun, "Print what would be started, as JSON");
  takeLogs(command, args);
  takeNodes(command, args);
}

}  // namespace unisono::cli

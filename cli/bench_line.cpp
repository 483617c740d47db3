#include "bench_line.hpp"

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "number.hpp"

namespace unisono::cli {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30U;

/// The operations as they are called here, and there.
struct OpName {
  const char* name;
  const char* inside;
};
constexpr OpName kOps[] = {
    {"all_reduce", "all_reduce"},
    {"all_gather", "all_gather"},
    {"reduce_scatter", "reduce_scatter"},
    {"all_to_all", "all_to_all"},
    {"broadcast", "broadcast"},
    {"reduce", "reduce"},
    {"gather", "gather"},
    {"scatter", "scatter"},
    {"send_recv", "ping_pong"},
    {"barrier", "barrier"},
};

struct PeerName {
  const char* name;
  std::vector<std::string> inside;
};
const std::vector<PeerName>& peerNames() {
  static const std::vector<PeerName> names = {{"unisono", {}},
                                              {"in-place", {bench::kRegistered}},
                                              {"gloo", {"gloo"}},
                                              {"mpi:openmpi", {"openmpi"}},
                                              {"mpi:mpich", {"mpich"}},
                                              {"mpi", {"openmpi", "mpich"}},
                                              {bench::kTorchGloo, {bench::kTorchGloo}}};
  return names;
}

struct TypeName {
  const char* name;
  const char* inside;
};
constexpr TypeName kOtherTypes[] = {
    {"float", "float32"}, {"double", "float64"}, {"half", "float16"}, {"bf16", "bfloat16"}};

template <typename Names>
std::vector<std::string> namesOf(const Names& list) {
  std::vector<std::string> names;
  for (const auto& each : list) {
    names.emplace_back(each.name);
  }
  return names;
}

/// What is reduced, and how.
void takeElements(CLI::App& command, BenchOptions& options) {
  command
      .add_option_function<std::string>(
          "-o,--op",
          [&options](const std::string& name) {
            for (const auto& each : bench::kReductions) {
              options.plan.reduction = name == each.name ? each.reduction : options.plan.reduction;
            }
          },
          "How to reduce: sum, prod, min, max, avg")
      ->check(CLI::IsMember(namesOf(bench::kReductions)))
      ->default_str("sum");
  std::vector<std::string> types = namesOf(bench::kElements);
  const std::vector<std::string> more = namesOf(kOtherTypes);
  types.insert(types.end(), more.begin(), more.end());
  command
      .add_option_function<std::string>(
          "-d,--datatype",
          [&options](std::string name) {
            for (const TypeName& each : kOtherTypes) {
              name = name == each.name ? each.inside : name;
            }
            options.plan.element = bench::elementCalled(name)->element;
          },
          "Of what: float, double, half, bfloat16, int32, int64")
      ->check(CLI::IsMember(types))
      ->default_str("float");
}

/// nccl-tests' letters.
void takeLetters(CLI::App& command, BenchOptions& options) {
  command.add_option("-b,--minbytes", options.least, "Bytes to begin with: 8, 64K, 1M")
      ->transform(byteCount(2, kMostBytes))
      ->default_str("8");
  command.add_option("-e,--maxbytes", options.most, "Bytes to end with")
      ->transform(byteCount(2, kMostBytes))
      ->default_str("128M");
  command.add_option("-f,--stepfactor", options.factor, "From size to size: times this")
      ->transform(wholeNumber(2, 1024))
      ->capture_default_str();
  command.add_option("-i,--stepbytes", options.step, "From size to size: plus this")
      ->transform(byteCount(1, kMostBytes));
  command.add_option("-n,--iters", options.plan.operations, "Operations of a round; 0: enough")
      ->transform(wholeNumber(0, bench::Board::kMostOperations))
      ->capture_default_str();
  options.plan.warmUps = 5;
  command.add_option("-w,--warmup_iters", options.plan.warmUps, "Operations before, at least one")
      ->transform(wholeNumber(0, bench::Board::kMostOperations))
      ->capture_default_str();
  takeElements(command, options);
  command
      .add_option_function<int>(
          "-c,--check", [&options](int check) { options.plan.isChecked = check != 0; },
          "Whether results are compared with what they must be: 0, 1")
      ->transform(wholeNumber(0, 1))
      ->default_str("1");
  command.add_option("-r,--root", options.plan.root, "The root of those operations that have one")
      ->transform(wholeNumber(0, bench::Board::kMostRanks - 1))
      ->capture_default_str();
  command
      .add_option(
          "-T,--timeout", options.timeout,
          "Seconds that the operations of a round may take, in a job every one [60, in a job "
          "UNISONO_TIMEOUT]")
      ->check(seconds(0.1, 86'400));
  command.add_option("-J,--json-file", options.jsonFile, "Also write the JSON document to a file");
}

/// What nccl-tests has not.
void takeOthers(CLI::App& command, BenchOptions& options) {
  command.add_option("--procs", options.plan.ranks, "How many ranks to start")
      ->transform(wholeNumber(2, bench::Board::kMostRanks))
      ->capture_default_str();
  command
      .add_option("--compare", options.compareWith,
                  "Also measure others, in turns: gloo, mpi:openmpi, mpi:mpich, mpi (both), "
                  "torch+gloo (from Python), in-place (memory of unisono's own)")
      ->delimiter(',')
      ->check(CLI::IsMember(namesOf(peerNames())));
  command.add_option("--python", options.python,
                     "A Python that has torch [.venv/bin/python, or python3]");
  command
      .add_option("--transport", options.transport,
                  "tcp: all by TCP only, as between hosts; shm: unisono by shared memory or not at "
                  "all; auto: as each likes it")
      ->check(CLI::IsMember({"auto", "shm", "tcp"}))
      ->capture_default_str();
  command.add_option("--algo", options.algo,
                     "The algorithms that unisono takes, as UNISONO_ALGO names them");
  command.add_flag(
      "--pin,!--no-pin", [&options](std::int64_t times) { options.isRoaming = times < 0; },
      "Whether each rank gets a core of its own, where there are enough [--pin]");
  command.add_option("--rounds", options.plan.rounds, "How often everything is measured")
      ->transform(wholeNumber(1, 1000))
      ->capture_default_str();
  command.add_flag("--back-to-back", options.plan.inARow,
                   "Operations one after the other, without new data: the time of all over their "
                   "number");
  command.add_option("--plot", options.plot, "Also draw the times into this file (SVG)");
  command.add_option("--baseline", options.baseline,
                     "What --json printed before: 1 is the exit code when unisono got slower");
  command.add_option("--fail-over", options.failOver, "By more percent than this")
      ->transform(CLI::Validator(
          [](std::string& text) {
            if (text.ends_with('%')) {
              text.pop_back();
            }
            return std::string();
          },
          "PERCENT"))
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command.add_flag("--as-rank", options.asRank)->group("");  // of a bench that has started it
}

}  // namespace

void takeBenchLine(CLI::App& command, BenchOptions& options) {
  options.plan.ops.clear();
  options.plan.sizes.clear();
  command.add_option("OP", options.op, str(join(namesOf(kOps), ", ", std::size(kOps)), ", all"))
      ->capture_default_str();
  takeLetters(command, options);
  takeOthers(command, options);
}

std::vector<std::string> opsCalled(const std::string& name) {
  std::vector<std::string> ops;
  for (const OpName& each : kOps) {
    if (name == "all" || name == each.name) {
      ops.emplace_back(each.inside);
    }
  }
  if (ops.empty()) {
    throw UsageError({.reason = Reason::USAGE,
                      .what = str("there is no operation ", name),
                      .hint = str("one of ", join(namesOf(kOps), ", ", std::size(kOps)), ", all")});
  }
  return ops;
}

std::vector<std::string> peersCalled(const std::vector<std::string>& names) {
  std::vector<std::string> peers;
  for (const std::string& wanted : names) {
    for (const PeerName& each : peerNames()) {
      if (wanted == each.name) {
        peers.insert(peers.end(), each.inside.begin(), each.inside.end());
      }
    }
  }
  return peers;
}

std::string outsideName(const std::string& peer) {
  return peer == "openmpi" || peer == "mpich" ? str("mpi:", peer) : peer;
}

}  // namespace unisono::cli

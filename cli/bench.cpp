// unisono bench: how fast collectives are, also beside other libraries. Its options are those that
// people know from nccl-tests.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include "unisono/base/error.hpp"

#include "base/cgroup.hpp"
#include "base/str.hpp"
#include "bench/collective/peers/unisono.hpp"
#include "bench/collective/picture.hpp"
#include "bench/collective/world.hpp"
#include "bench/scratch.hpp"
#include "bench_report.hpp"
#include "command.hpp"
#include "number.hpp"
#include "terminal.hpp"

namespace unisono::cli {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30U;
constexpr const char* kRegisteredRank = "registered";  // what findEntrants() adds for one

struct BenchOptions : Manner {
  bench::CollectivePlan plan;
  std::string op = "all_reduce";
  std::uint64_t least = 8;
  std::uint64_t most = 128U << 20U;
  std::uint64_t factor = 2;
  std::uint64_t step = 0;
  std::vector<std::string> compareWith;
  bool tcpOnly = false;
  std::string jsonFile;
  std::string plot;
  std::string baseline;
  double failOver = 5;
  bool asRank = false;  // one of those that another bench has started
};

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
  static const std::vector<PeerName> names = {
      {"unisono", {}},          {"in-place", {bench::kRegistered}},
      {"gloo", {"gloo"}},       {"mpi:openmpi", {"openmpi"}},
      {"mpi:mpich", {"mpich"}}, {"mpi", {"openmpi", "mpich"}}};
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

/// Under the name that it has on the command line.
std::string outside(const std::string& peer) {
  return peer == "openmpi" || peer == "mpich" ? str("mpi:", peer) : peer;
}

std::vector<std::uint64_t> sizesOf(const BenchOptions& options) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = options.least; size <= options.most;) {
    sizes.push_back(size);
    size = options.step > 0 ? size + options.step : size * options.factor;
  }
  return sizes;
}

[[noreturn]] void refuse(Reason reason, std::string what, std::string hint) {
  throw UsageError({.reason = reason, .what = std::move(what), .hint = std::move(hint)});
}

/// Before anything is started: what cannot work, or not end well.
void refuseNonsense(const BenchOptions& options) {
  if (options.most < options.least) {
    refuse(Reason::USAGE,
           str("bench up to ", options.most, " bytes cannot begin with ", options.least),
           "give -e at least what -b is");
  }
  const bool isInteger = options.plan.element == bench::Element::INT32 ||
                         options.plan.element == bench::Element::INT64;
  if (options.plan.reduction == bench::Reduction::AVG && isInteger) {
    refuse(Reason::USAGE, "the average of integers is none of them", "-d float, or another -o");
  }
  const auto ranks = static_cast<std::uint64_t>(options.plan.ranks);
  const std::uint64_t needed = 2 * options.most * ranks;  // what goes in, and what comes out
  if (needed > memoryLeft()) {
    refuse(Reason::RESOURCE,
           str("bench of ", formatBytes(options.most), " needs ", formatBytes(needed),
               " of memory for ", ranks, " ranks, and ", formatBytes(memoryLeft() >> 20U << 20U),
               " are free"),
           "give a smaller -e");
  }
}

void refuseUnwritable(const std::string& file) {
  if (file.empty()) {
    return;
  }
  const bool isNew = ::access(file.c_str(), F_OK) != 0;
  std::ofstream out(file, std::ios::app);
  if (!out) {
    throw FileFailure(str("cannot write ", file, ": ", errnoText(errno)));
  }
  if (isNew) {
    ::unlink(file.c_str());  // it is to appear when it is complete
  }
}

void save(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  out << text << std::flush;
  if (!out) {
    throw FileFailure(str("cannot write ", file, ": ", errnoText(errno)));
  }
}

/// What is being measured, on one line of a terminal.
class Steps {
 public:
  Steps(const BenchOptions& options, bool shown)
      : all_(stepsOf(options.plan)),
        shown_(shown && !options.quiet && ::isatty(STDERR_FILENO) != 0) {}
  ~Steps() {
    if (shown_) {
      std::fputs("\r\033[K", stderr);
    }
  }
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;
  void operator()(const std::string& op, std::uint64_t size) {
    throwIfInterrupted();
    ++done_;
    if (shown_) {
      std::fprintf(stderr, "\r\033[Kmeasuring %s of %s (%zu of %zu)", op.c_str(),
                   formatBytes(size).c_str(), done_, all_);
    }
  }

 private:
  static std::size_t stepsOf(const bench::CollectivePlan& plan) {
    std::size_t steps = 0;
    for (const std::string& op : plan.ops) {
      steps += op == "barrier" ? 1 : plan.sizes.size();
    }
    return steps;
  }

  const std::size_t all_;
  const bool shown_;
  std::size_t done_ = 0;
};

void describePlan(const BenchOptions& options, BenchReport& report, const char* ranks) {
  report.plan = options.plan;
  report.environment = bench::environment();
  report.environment.emplace_back("ranks", str(options.plan.ranks, ranks));
  report.environment.emplace_back("transport", options.tcpOnly ? "tcp" : "best");
}

/// Measures ranks that are started for it, beside those of others.
void measureHere(const BenchOptions& options, BenchReport& report) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  bench::Scratch scratch;
  std::vector<std::string> names{"unisono"};
  for (const std::string& wanted : options.compareWith) {
    for (const PeerName& each : peerNames()) {
      if (wanted == each.name) {
        names.insert(names.end(), each.inside.begin(), each.inside.end());
      }
    }
  }
  const bench::Stage stage{.ranks = options.plan.ranks,
                           .tcpOnly = options.tcpOnly,
                           .folder = std::filesystem::path(self).parent_path(),
                           .scratch = scratch.path(),
                           .ours = {self, "bench", "--as-rank"}};
  const auto entrants = bench::findEntrants(names, stage, report.missing);
  bench::Contest contest(entrants, options.plan.ranks, scratch.path(), report.missing);
  if (contest.names().empty() || contest.names().front() != "unisono") {
    throw DistError({.reason = Reason::RESOURCE,
                     .what = "the ranks of bench did not come up",
                     .hint = str("see what they say: unisono run -n ", options.plan.ranks,
                                 " --no-python ", self, " bench")});
  }
  scratch.remove();  // everybody has what is in it: nothing is left, whatever ends us
  describePlan(options, report, "");
  for (std::size_t i = 0; i < contest.names().size(); ++i) {
    report.environment.emplace_back(str("version of ", outside(contest.names()[i])),
                                    contest.versionOf(i));
  }
  Steps steps(options, true);
  report.rows = bench::compareCollectives(contest, options.plan, std::ref(steps));
}

/// Measures the ranks of the job that this process is one of. False for those who do not tell.
bool measureThere(BenchOptions& options, BenchReport& report) {
  if (!options.compareWith.empty()) {
    refuse(Reason::USAGE,
           "bench --compare starts ranks of its own, but this is one of a job (RANK is set)",
           "leave --compare out, or start bench by itself");
  }
  if (options.tcpOnly) {
    ::setenv("UNISONO_TRANSPORT", "tcp", 1);
  }
  Group world = init();
  options.plan.ranks = world.size();
  options.plan.hasReferences = false;  // the ranks may be on several hosts
  refuseNonsense(options);
  describePlan(options, report, ", of a job");
  const bool tells = world.rank() == 0;
  Steps steps(options, tells);
  bench::World field(world);
  report.rows = bench::compareCollectives(field, options.plan, std::ref(steps));
  world.barrier();
  return tells;
}

void rename(BenchReport& report) {
  for (bench::CollectiveRow& row : report.rows) {
    row.peer = outside(row.peer);
    row.op = row.op == "ping_pong" ? "send_recv" : row.op;
  }
  for (bench::Absentee& each : report.missing) {
    each.name = outside(each.name);
  }
}

std::string captionOf(const BenchReport& report) {
  std::string caption = str("unisono bench, ", report.plan.ranks, " ranks");
  for (const auto& [name, value] : report.environment) {
    caption += name == "processor" || name == "date" ? str(", ", value) : "";
  }
  return caption;
}

/// Prints the report; the exit code says whether all is as it must be.
int tell(const BenchOptions& options, const BenchReport& report, const Baseline* baseline) {
  if (options.json) {
    printLine(benchJson(report));
  } else {
    printBench(report, options.quiet);
  }
  if (options.quiet) {
    for (const bench::Absentee& each : report.missing) {
      complain(str(each.name, " was left out: ", each.why));
    }
  }
  if (!options.jsonFile.empty()) {
    save(options.jsonFile, benchJson(report) + "\n");
  }
  if (!options.plot.empty()) {
    save(options.plot, bench::drawTimes(report.rows, captionOf(report)));
  }
  bool isGood = true;
  for (const bench::CollectiveRow& row : report.rows) {
    if (row.wrong > 0) {
      complain(str(row.peer, " got ", row.wrong, " wrong elements in ", row.op, " of ", row.size,
                   " bytes"));
      isGood = false;
    }
  }
  if (baseline != nullptr) {
    for (const std::string& line : baseline->slower(report, options.failOver)) {
      complain(str("slower than ", options.baseline, ": ", line));
      isGood = false;
    }
  }
  return isGood ? OK : FAILURE;
}

int serveAsRank(const BenchOptions& options) {
  bench::UnisonoRank rank(init(), options.op == kRegisteredRank);
  return bench::serveBoard(rank);
}

int run(BenchOptions options) {
  if (options.asRank) {
    return serveAsRank(options);
  }
  begin(options);
  for (const OpName& each : kOps) {
    if (options.op == "all" || options.op == each.name) {
      options.plan.ops.emplace_back(each.inside);
    }
  }
  if (options.plan.ops.empty()) {
    refuse(Reason::USAGE, str("there is no operation ", options.op),
           str("one of ", join(namesOf(kOps), ", ", std::size(kOps)), ", all"));
  }
  options.plan.sizes = sizesOf(options);
  const bool isOfAJob = std::getenv("RANK") != nullptr && std::getenv("WORLD_SIZE") != nullptr;
  if (!isOfAJob) {
    refuseNonsense(options);
  }
  refuseUnwritable(options.plot);
  refuseUnwritable(options.jsonFile);
  std::unique_ptr<Baseline> baseline;
  if (!options.baseline.empty()) {
    baseline = std::make_unique<Baseline>(options.baseline);
  }
  BenchReport report;
  bool tells = true;
  if (isOfAJob) {
    tells = measureThere(options, report);
  } else {
    measureHere(options, report);
  }
  rename(report);
  return tells ? tell(options, report, baseline.get()) : OK;
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
  command
      .add_option_function<int>(
          "-c,--check", [&options](int check) { options.plan.isChecked = check != 0; },
          "Whether results are compared with what they must be: 0, 1")
      ->transform(wholeNumber(0, 1))
      ->default_str("1");
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
                  "in-place (memory of unisono's own)")
      ->delimiter(',')
      ->check(CLI::IsMember(namesOf(peerNames())));
  command
      .add_option_function<std::string>(
          "--transport", [&options](const std::string& name) { options.tcpOnly = name == "tcp"; },
          "tcp: all by TCP only, as between hosts; auto: as each likes it")
      ->check(CLI::IsMember({"auto", "tcp"}))
      ->default_str("auto");
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

void addBench(CLI::App& program, Context& context) {
  CLI::App* command = program.add_subcommand(
      "bench", "Measure collectives of ranks that it starts, or of the job it is started in");
  const auto options = std::make_shared<BenchOptions>();
  options->plan.ops.clear();
  options->plan.sizes.clear();
  command->add_option("OP", options->op, str(join(namesOf(kOps), ", ", std::size(kOps)), ", all"))
      ->capture_default_str();
  takeLetters(*command, *options);
  takeOthers(*command, *options);
  command->footer(
      "Examples:\n"
      "  unisono bench all_reduce -b 8 -e 64M -f 4 --compare gloo,mpi\n"
      "  unisono run -n 4 --no-python unisono bench all -e 1M");
  command->callback([options, &context] {
    static_cast<Manner&>(*options) = context.manner;
    context.exitCode = run(*options);
  });
}

}  // namespace unisono::cli

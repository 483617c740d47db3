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
#include "bench_line.hpp"
#include "bench_report.hpp"
#include "collective/selection.hpp"
#include "command.hpp"
#include "terminal.hpp"

namespace unisono::cli {
namespace {

constexpr const char* kRegisteredRank = "registered";  // what findEntrants() adds for one

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
  if (options.plan.root >= options.plan.ranks) {
    refuse(Reason::USAGE,
           str("bench of ", options.plan.ranks, " ranks has no rank ", options.plan.root),
           str("give -r a rank from 0 to ", options.plan.ranks - 1));
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

/// How unisono's ranks are to reach each other, and by which algorithms: by their environment,
/// which is that of this process.
void tellRanks(const BenchOptions& options) {
  if (options.transport != "auto") {
    ::setenv("UNISONO_TRANSPORT", options.transport.c_str(), 1);
  }
  if (!options.algo.empty()) {
    ::setenv("UNISONO_ALGO", options.algo.c_str(), 1);
    try {
      static_cast<void>(Selector());  // before anything is started
    } catch (const UsageError& error) {
      refuse(Reason::USAGE, str("--algo ", options.algo, " names no algorithm"), error.hint());
    }
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
  report.environment.emplace_back("transport", options.transport);
  if (!options.algo.empty()) {
    report.environment.emplace_back("algo", options.algo);
  }
}

/// Measures ranks that are started for it, beside those of others.
void measureHere(const BenchOptions& options, BenchReport& report) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  bench::Scratch scratch;
  std::vector<std::string> names{"unisono"};
  const std::vector<std::string> others = peersCalled(options.compareWith);
  names.insert(names.end(), others.begin(), others.end());
  const bench::Stage stage{.ranks = options.plan.ranks,
                           .tcpOnly = options.transport == "tcp",
                           .folder = std::filesystem::path(self).parent_path(),
                           .scratch = scratch.path(),
                           .ours = {self, "bench", "--as-rank"},
                           .python = options.python};
  const auto entrants = bench::findEntrants(names, stage, report.missing);
  bench::Rules rules{.isRoaming = options.isRoaming};
  if (options.timeout) {
    rules.timeForATask = fromSeconds(*options.timeout);
  }
  bench::Contest contest(entrants, options.plan.ranks, scratch.path(), report.missing, rules);
  if (contest.names().empty() || contest.names().front() != "unisono") {
    throw DistError({.reason = Reason::RESOURCE,
                     .what = "the ranks of bench did not come up",
                     .hint = str("see what they say: unisono run -n ", options.plan.ranks,
                                 " --no-python ", self, " bench")});
  }
  scratch.remove();  // everybody has what is in it: nothing is left, whatever ends us
  describePlan(options, report, "");
  for (std::size_t i = 0; i < contest.names().size(); ++i) {
    report.environment.emplace_back(str("version of ", outsideName(contest.names()[i])),
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
  InitOptions how;
  if (options.timeout) {
    how.timeout = fromSeconds(*options.timeout);
  }
  Group world = init(how);
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
    row.peer = outsideName(row.peer);
    row.op = row.op == "ping_pong" ? "send_recv" : row.op;
  }
  for (bench::Absentee& each : report.missing) {
    each.name = outsideName(each.name);
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
  options.plan.ops = opsCalled(options.op);
  tellRanks(options);
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

}  // namespace

void addBench(CLI::App& program, Context& context) {
  CLI::App* command = program.add_subcommand(
      "bench", "Measure collectives of ranks that it starts, or of the job it is started in");
  const auto options = std::make_shared<BenchOptions>();
  takeBenchLine(*command, *options);
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

// unisono_compare: collectives of unisono, Open MPI, MPICH and Gloo, side by side.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "bench/collective/comparison.hpp"
#include "bench/collective/picture.hpp"
#include "bench/environment.hpp"
#include "bench/scratch.hpp"
#include "collective/thresholds.hpp"

namespace unisono::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  CollectivePlan plan;
  std::vector<std::string> peers = {"openmpi", "mpich", "gloo"};
  bool tcpOnly = false;
  bool alone = false;
  bool json = false;
  std::string plot;
};

std::string sizeText(std::uint64_t bytes) {
  return bytes < 1024          ? str(bytes)
         : bytes < (1U << 20U) ? str(bytes >> 10U, " Ki")
                               : str(bytes >> 20U, " Mi");
}

void printStarts(const Contest& contest) {
  std::printf("\n%-8s %22s %16s\n", "library", "ms until all ranks met", "KiB of each rank");
  for (std::size_t i = 0; i < contest.names().size(); ++i) {
    const Contest::Start start = contest.startOf(i);
    std::printf("%-8s %22.1f %16.0f\n", contest.names()[i].c_str(), start.milliseconds,
                start.kibibytesOfRank);
  }
}

/// Which algorithm a size has measured, where UNISONO_ALGO says nothing else.
void printThresholds() {
  std::printf("thresholds, processors of the family %s%s:\n",
              std::string(thresholds().family).c_str(),
              std::getenv("UNISONO_ALGO") == nullptr ? "" : ", which UNISONO_ALGO overrides");
  for (const ThresholdLine& line : describe(thresholds())) {
    std::printf("  %-11s %-7s %s\n", line.operation.c_str(), line.algorithm.c_str(),
                line.when.c_str());
  }
  std::printf("\n");
}

const char* transportOf(const Options& options) {
  return options.tcpOnly ? "tcp" : "best";
}

/// The name of a contestant as one word.
std::string wordOf(const Contest& contest, std::size_t which) {
  std::string word = contest.names()[which];
  std::replace(word.begin(), word.end(), ' ', '_');
  return word;
}

/// What the figures depend on, besides the code.
Facts circumstances(const Options& options, const Contest& contest) {
  Facts facts = environment();
  const auto cores = std::thread::hardware_concurrency();
  facts.emplace_back("ranks", str(options.plan.ranks));
  facts.emplace_back("pinning", options.plan.ranks <= static_cast<int>(cores)
                                    ? "each rank to a core, but for gloo"
                                    : "none: ranks outnumber cores");
  facts.emplace_back("transport", transportOf(options));
  facts.emplace_back("dtype", nameOf(options.plan.element));
  facts.emplace_back("mode", options.plan.inARow ? "back to back" : "fresh data");
  for (std::size_t i = 0; i < contest.names().size(); ++i) {
    facts.emplace_back(str("version_", wordOf(contest, i)), contest.versionOf(i));
  }
  return facts;
}

/// What has happened to the ranks while they were measured.
Facts disturbances(const Contest& contest, const ProcessorTime& before) {
  std::array<char, 32> percent{};
  std::snprintf(percent.data(), percent.size(), "%.1f", stolenPercent(before, processorTime()));
  Facts facts{{"stolen_percent", percent.data()}};
  for (std::size_t i = 0; i < contest.names().size(); ++i) {
    facts.emplace_back(str("preemptions_", wordOf(contest, i)), str(contest.preemptionsOf(i)));
  }
  return facts;
}

void printFacts(const Facts& facts) {
  for (const auto& [name, value] : facts) {
    std::printf("%s: %s\n", name.c_str(), value.c_str());
  }
  std::printf("\n");
}

void printTable(const std::vector<CollectiveRow>& rows) {
  std::printf("%-15s %7s  %-8s %11s %11s %11s %9s  %s\n", "operation", "bytes", "library", "p10 us",
              "p50 us", "p99 us", "bus GB/s",
              "its time over unisono's (least to most of all rounds)");
  for (const CollectiveRow& row : rows) {
    std::string ratio;
    if (row.ratio) {
      std::array<char, 64> text{};
      std::snprintf(text.data(), text.size(), "%.2f  (%.2f to %.2f)", *row.ratio, row.ratioLeast,
                    row.ratioMost);
      ratio = text.data();
    }
    const std::string tries = row.isReference && row.tries > 1 ? str("  tries: ", row.tries) : "";
    std::printf("%-15s %7s  %-8s %11.2f %11.2f %11.2f %9.2f  %s%s%s%s\n", row.op.c_str(),
                sizeText(row.size).c_str(), row.peer.c_str(), row.p10, row.p50, row.p99, row.busGBs,
                ratio.c_str(), row.isNoisy ? "  noisy" : "", tries.c_str(),
                row.wrong > 0 ? "  WRONG RESULT" : "");
  }
}

Json jsonOf(const Options& options, const Contest& contest, const std::vector<CollectiveRow>& rows,
            const std::vector<Absentee>& absent, const Facts& facts) {
  Json all{{"schema", "unisono-collective-bench/1"}, {"transport", transportOf(options)}};
  for (const auto& [name, value] : facts) {
    all["environment"][name] = value;
  }
  const char* algo = std::getenv("UNISONO_ALGO");
  all["thresholds"] = {{"family", thresholds().family}, {"algo", algo == nullptr ? "" : algo}};
  for (const ThresholdLine& line : describe(thresholds())) {
    all["thresholds"]["lines"].push_back(
        {{"op", line.operation}, {"algorithm", line.algorithm}, {"when", line.when}});
  }
  for (const Absentee& each : absent) {
    all["missing"].push_back({{"peer", each.name}, {"why", each.why}});
  }
  for (std::size_t i = 0; i < contest.names().size(); ++i) {
    const Contest::Start start = contest.startOf(i);
    all["starts"].push_back({{"peer", contest.names()[i]},
                             {"procs", options.plan.ranks},
                             {"ms", start.milliseconds},
                             {"kib_of_rank", start.kibibytesOfRank},
                             {"connections_of_rank", start.connectionsOfRank},
                             {"first_us", start.firstMicroseconds},
                             {"kib_after", start.kibibytesAfter},
                             {"connections_after", start.connectionsAfter}});
  }
  for (const CollectiveRow& row : rows) {
    Json one{{row.isReference ? "reference" : "peer", row.peer},
             {"op", row.op},
             {"size", row.size},
             {"procs", options.plan.ranks},
             {"dtype", nameOf(options.plan.element)},
             {"back_to_back", options.plan.inARow},
             {"p10_us", row.p10},
             {"p50_us", row.p50},
             {"p99_us", row.p99},
             {"algbw", row.algorithmGBs},
             {"busbw", row.busGBs},
             {"wrong", row.wrong > 0},
             {"noisy", row.isNoisy},
             {"spread", row.spread},
             {"tries", row.tries}};
    if (row.ratio) {
      one["ratio"] = *row.ratio;
      one["ratio_least"] = row.ratioLeast;
      one["ratio_most"] = row.ratioMost;
    }
    all[row.isReference ? "references" : "rows"].push_back(std::move(one));
  }
  return all;
}

void draw(const Options& options, const std::vector<CollectiveRow>& rows, const Facts& facts) {
  std::string caption =
      str("unisono_compare, ", options.plan.ranks, " ranks", options.tcpOnly ? " by TCP" : "");
  for (const auto& [name, value] : facts) {
    caption += name == "processor" || name == "date" ? str(", ", value) : "";
  }
  std::ofstream out(options.plot);
  out << drawTimes(rows, caption) << std::flush;
  if (!out) {
    throw DistError({.reason = Reason::RESOURCE,
                     .what = str("the picture could not be written to ", options.plot)});
  }
}

int run(const Options& options, const std::string& folder) {
  const Scratch scratch;
  std::vector<Absentee> absent;
  std::vector<std::string> names{"unisono"};
  if (!options.tcpOnly) {
    names.emplace_back(kRegistered);  // memory that is shared
  }
  if (!options.alone) {
    names.insert(names.end(), options.peers.begin(), options.peers.end());
  }
  const std::vector<Entrant> entrants = findEntrants(names,
                                                     {.ranks = options.plan.ranks,
                                                      .tcpOnly = options.tcpOnly,
                                                      .folder = folder,
                                                      .scratch = scratch.path()},
                                                     absent);
  Contest contest(entrants, options.plan.ranks, scratch.path(), absent);
  for (const Absentee& each : absent) {
    std::fprintf(stderr, "%s is left out: %s\n", each.name.c_str(), each.why.c_str());
  }
  if (contest.names().empty() || contest.names().front() != "unisono") {
    throw DistError({.reason = Reason::RESOURCE, .what = "unisono's own ranks do not come up"});
  }
  Facts facts = circumstances(options, contest);
  const ProcessorTime before = processorTime();
  const std::vector<CollectiveRow> rows =
      compareCollectives(contest, options.plan, [](const std::string& op, std::uint64_t size) {
        std::fprintf(stderr, "%s, %s bytes\n", op.c_str(), sizeText(size).c_str());
      });
  const Facts disturbed = disturbances(contest, before);
  facts.insert(facts.end(), disturbed.begin(), disturbed.end());
  if (!options.plot.empty()) {
    draw(options, rows, facts);
  }
  if (options.json) {
    std::printf("%s\n", jsonOf(options, contest, rows, absent, facts).dump(1).c_str());
  } else {
    if (!options.tcpOnly) {
      printThresholds();
    }
    printFacts(facts);
    printTable(rows);
    printStarts(contest);
  }
  return std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.wrong > 0; }) ? 1
                                                                                              : 0;
}

/// Who takes part, and how.
void addContestants(CLI::App& app, Options& options) {
  app.add_option("--ranks", options.plan.ranks, "processes of each library")
      ->check(CLI::Range(2, Board::kMostRanks))
      ->capture_default_str();
  app.add_option("--peers", options.peers, "with whom: openmpi, mpich, gloo")
      ->delimiter(',')
      ->check(CLI::IsMember({"openmpi", "mpich", "gloo"}));
  app.add_option_function<std::string>(
         "--transport", [&options](const std::string& name) { options.tcpOnly = name == "tcp"; },
         "tcp: all of them by TCP only, as between hosts; best: as each of them likes it")
      ->check(CLI::IsMember({"best", "tcp"}))
      ->default_str("best");
  app.add_flag("--alone", options.alone, "without any of them");
}

}  // namespace
}  // namespace unisono::bench

int main(int argc, char** argv) {
  namespace bench = unisono::bench;
  bench::Options options;
  CLI::App app{
      "Measures collectives of unisono beside other libraries, in interleaved rounds.\n"
      "Every operation works on data that was just written; its time is that of the "
      "slowest rank.\n"
      "In every round the same ranks also copy as many bytes (copy) and change them in place "
      "(rmw), "
      "all at once; where bytes are few, a word goes from core to core (flight). Rows whose "
      "references differ by more than 15 % between rounds are called noisy, and measured once more "
      "if "
      "by more than 40 %.",
      "unisono_compare"};
  const auto isOp = [](const std::string& name) {
    return bench::opCalled(name) ? std::string() : "there is no operation " + name;
  };
  app.add_option("--ops", options.plan.ops, bench::opNames())->delimiter(',')->check(isOp);
  app.add_option("--sizes", options.plan.sizes, "bytes of the whole vector")
      ->delimiter(',')
      ->check(CLI::Range(std::uint64_t{2}, std::uint64_t{1} << 30U));
  std::string dtypes;
  for (const bench::NamedElement& each : bench::kElements) {
    dtypes += unisono::str(dtypes.empty() ? "" : ", ", each.name);
  }
  app.add_option_function<std::string>(
         "--dtype",
         [&](const std::string& name) {
           options.plan.element = bench::elementCalled(name)->element;
         },
         dtypes + "; libraries that have no such elements are left out")
      ->check([](const std::string& name) {
        return bench::elementCalled(name) != nullptr ? std::string() : "there is no dtype " + name;
      })
      ->default_str("float32");
  app.add_flag("--back-to-back", options.plan.inARow,
               "operations one after the other, without new data: the time of all over their "
               "number");
  app.add_option("--rounds", options.plan.rounds)->check(CLI::Range(1, 100))->capture_default_str();
  bench::addContestants(app, options);
  app.add_option("--plot", options.plot, "draws the times into this file (SVG)");
  app.add_flag("--json", options.json, "for programs, on the standard output");
  CLI11_PARSE(app, argc, argv);
  try {
    const auto self = std::filesystem::read_symlink("/proc/self/exe");
    return bench::run(options, self.parent_path().string());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

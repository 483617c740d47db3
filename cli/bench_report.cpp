#include "bench_report.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "terminal.hpp"

namespace unisono::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "unisono-bench/1";
constexpr std::size_t kMostBytes = 64U << 20U;  // of a baseline

template <typename... Cells>
std::string cells(const char* format, Cells... values) {
  std::array<char, 256> line{};
  std::snprintf(line.data(), line.size(), format, values...);
  return line.data();
}

Json rowJson(const BenchReport& report, const bench::CollectiveRow& row) {
  const bench::CollectivePlan& plan = report.plan;
  Json line = {{row.isReference ? "reference" : "peer", row.peer},
               {"op", row.op},
               {"size", row.size},
               {"count", row.size / bench::bytesOf(plan.element)},
               {"procs", plan.ranks},
               {"dtype", bench::nameOf(plan.element)},
               {"redop", bench::nameOf(plan.reduction)},
               {"time_us", row.mean},
               {"p50_us", row.p50},
               {"p99_us", row.p99},
               {"algbw", row.algorithmGBs},
               {"busbw", row.busGBs},
               {"wrong", row.wrong},
               {"noisy", row.isNoisy},
               {"ratio", nullptr}};
  if (row.ratio) {
    line["ratio"] = *row.ratio;
    line["ratio_range"] = {row.ratioLeast, row.ratioMost};
  }
  return line;
}

/// What makes two rows figures of the same thing.
std::string keyOf(const Json& row) {
  return str(row.at("peer").get<std::string>(), " ", row.at("op").get<std::string>(), " of ",
             row.at("size").get<std::uint64_t>(), " bytes, ", row.at("dtype").get<std::string>(),
             " ", row.at("redop").get<std::string>(), ", ", row.at("procs").get<int>(), " ranks");
}

Json documentOf(const BenchReport& report) {
  Json document = {{"schema", kSchema}};
  for (const auto& [name, value] : report.environment) {
    document["environment"][name] = value;
  }
  document["rounds"] = report.plan.rounds;
  document["missing"] = Json::object();
  for (const bench::Absentee& each : report.missing) {
    document["missing"][each.name] = each.why;
  }
  document["rows"] = Json::array();
  document["references"] = Json::array();
  for (const bench::CollectiveRow& row : report.rows) {
    document[row.isReference ? "references" : "rows"].push_back(rowJson(report, row));
  }
  return document;
}

bool isOurs(const std::string& peer) {
  return peer == "unisono" || peer == bench::kRegistered;
}

}  // namespace

std::string benchJson(const BenchReport& report) {
  return documentOf(report).dump(2, ' ', false, Json::error_handler_t::replace);
}

void printBench(const BenchReport& report, bool quiet) {
  if (!quiet) {
    for (const auto& [name, value] : report.environment) {
      printLine(cells("# %-14s ", name.c_str()) + value);
    }
    for (const bench::Absentee& each : report.missing) {
      printLine(cells("# %-14s left out: ", each.name.c_str()) + each.why);
    }
    printLine("#");
  }
  printLine(cells("%-14s %10s %10s %-8s %-5s %-11s %10s %10s %10s %8s %8s %6s %7s", "operation",
                  "size", "count", "type", "redop", "library", "time us", "p50 us", "p99 us",
                  "algbw", "busbw", "wrong", "ratio"));
  const bench::CollectivePlan& plan = report.plan;
  bool hasRatios = false;
  for (const bench::CollectiveRow& row : report.rows) {
    if (row.isReference) {
      continue;
    }
    hasRatios = hasRatios || row.ratio.has_value();
    const std::string figures = cells(
        "%-14s %10llu %10llu %-8s %-5s %-11s %10.2f %10.2f %10.2f %8.2f %8.2f %6llu",
        row.op.c_str(), static_cast<unsigned long long>(row.size),
        static_cast<unsigned long long>(row.size / bench::bytesOf(plan.element)),
        bench::nameOf(plan.element), bench::nameOf(plan.reduction), row.peer.c_str(), row.mean,
        row.p50, row.p99, row.algorithmGBs, row.busGBs, static_cast<unsigned long long>(row.wrong));
    printLine(str(figures, row.ratio ? cells(" %7.2f", *row.ratio) : "",
                  row.isNoisy ? colored(Color::FAINT, "  noisy") : "",
                  row.wrong > 0 ? colored(Color::RED, "  WRONG") : ""));
  }
  if (!quiet) {
    printLine("#\n# algbw and busbw in GB/s; time of an operation: that of its slowest rank");
    if (hasRatios) {
      printLine("# ratio: p50 over that of unisono in the same round, so above 1 unisono is ahead");
    }
  }
}

Baseline::Baseline(const std::string& file) : file_(file) {
  const Json document = Json::parse(readAll(file, kMostBytes), nullptr, false);
  try {
    if (document.at("schema") == kSchema) {
      for (const Json& row : document.at("rows")) {
        times_[keyOf(row)] = row.at("p50_us").get<double>();
      }
      return;
    }
  } catch (const Json::exception&) {  // said below
  }
  throw UsageError({.reason = Reason::USAGE,
                    .what = str(file, " is not what unisono bench --json has printed"),
                    .hint = str("make one: unisono bench … --json >", file)});
}

std::vector<std::string> Baseline::slower(const BenchReport& report, double percent) const {
  std::vector<std::string> lines;
  std::size_t common = 0;
  for (const bench::CollectiveRow& row : report.rows) {
    if (row.isReference || !isOurs(row.peer)) {
      continue;
    }
    const std::string key = keyOf(rowJson(report, row));
    const auto before = times_.find(key);
    if (before == times_.end()) {
      continue;
    }
    ++common;
    if (row.p50 > before->second * (1 + percent / 100)) {
      lines.push_back(str(key, ": ", cells("%.2f us, and %.2f before", row.p50, before->second)));
    }
  }
  if (common == 0) {
    throw UsageError({.reason = Reason::USAGE,
                      .what = str(file_, " has nothing that was measured now"),
                      .hint = "measure the same operations, sizes, type and number of ranks"});
  }
  return lines;
}

}  // namespace unisono::cli

#include "bench/collective/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "bench/store/compare.hpp"

namespace unisono::bench {
namespace {

struct Named {
  const char* name;
  Op op;
};
constexpr Named kOps[] = {{"all_reduce", Op::ALL_REDUCE},
                          {"reduce", Op::REDUCE},
                          {"broadcast", Op::BROADCAST},
                          {"all_gather", Op::ALL_GATHER},
                          {"gather", Op::GATHER},
                          {"scatter", Op::SCATTER},
                          {"reduce_scatter", Op::REDUCE_SCATTER},
                          {"all_to_all", Op::ALL_TO_ALL},
                          {"barrier", Op::BARRIER},
                          {"ping_pong", Op::PING_PONG}};

constexpr double kNoise = 0.15;
constexpr double kTooMuchNoise = 0.4;
constexpr int kMostTries = 2;
/// Vectors from here on are compared with copying; the time of a smaller one is that of a line.
constexpr std::uint64_t kCopied = 4096;

/// The value that the fraction `part` does not exceed.
double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const auto at = static_cast<std::size_t>(std::ceil(part * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(at, 1, values.size()) - 1];
}

/// So many that a cell takes a twentieth of a second, but neither too few nor half a second.
std::uint64_t countFor(double microseconds, std::uint64_t bytes) {
  const double enough = 50'000 / std::max(microseconds, 0.05);
  const double least = bytes < (1U << 20U) ? 200 : 9;
  const double most = std::max(3.0, 500'000 / std::max(microseconds, 0.05));
  const double count = std::min(std::max(enough, least), most);
  return std::min<std::uint64_t>(static_cast<std::uint64_t>(count), Board::kMostOperations);
}

double busFactor(Op op, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  switch (op) {
    case Op::ALL_REDUCE:
      return 2 * share;
    case Op::PING_PONG:
      return 2;
    case Op::BROADCAST:
    case Op::REDUCE:
    case Op::COPY:
    case Op::READ_MODIFY:
      return 1;
    default:
      return share;
  }
}

bool isCut(Op op) {
  return op == Op::ALL_GATHER || op == Op::REDUCE_SCATTER || op == Op::ALL_TO_ALL ||
         op == Op::GATHER || op == Op::SCATTER;
}

/// One line of the report while it is being measured: a library, or a reference.
struct Series {
  std::string name;
  std::size_t contestant;
  Task task;
  bool isReference = false;
  std::vector<double> p10 = {};  // of each round
  std::vector<double> p50 = {};
  std::vector<double> p99 = {};
  std::vector<double> mean = {};
  std::uint64_t wrong = 0;

  /// By how much the slowest round took longer than the fastest.
  double spread() const {
    const auto [least, most] = std::minmax_element(p50.begin(), p50.end());
    return p50.empty() || *least <= 0 ? 0 : *most / *least - 1;
  }
};

/// The rounds of one operation and size.
class Cell {
 public:
  Cell(Field& field, const CollectivePlan& plan, Task task)
      : field_(field), plan_(plan), task_(task) {}

  std::vector<CollectiveRow> run(const std::string& name) {
    prepare();
    std::vector<Series> calmest;
    double least = 0;
    int tries = 0;
    do {
      std::vector<Series> series = measure();
      double spread = 0;
      for (const Series& each : series) {
        spread = each.isReference ? std::max(spread, each.spread()) : spread;
      }
      if (tries++ == 0 || spread < least) {
        calmest = std::move(series);
        least = spread;
      }
    } while (least > kTooMuchNoise && tries < kMostTries);
    std::vector<CollectiveRow> rows;
    for (const Series& each : calmest) {
      rows.push_back(rowOf(each, calmest, name));
      rows.back().spread = least;
      rows.back().isNoisy = least > kNoise;
      rows.back().tries = tries;
    }
    return rows;
  }

 private:
  void addReference(const char* name, Op op) {
    Task task{op, task_.bytes, 6};
    const double once = quantile(field_.run(0, task).microseconds, 0.5);
    task.count = static_cast<std::uint64_t>(std::clamp(10'000 / std::max(once, 0.05), 9.0, 200.0));
    series_.push_back({.name = name, .contestant = 0, .task = task, .isReference = true});
  }

  /// Warms everybody up, and finds out how many operations fill the time.
  void prepare() {
    if (plan_.hasReferences && task_.bytes >= kCopied) {
      addReference("copy", Op::COPY);
      addReference("rmw", Op::READ_MODIFY);
    } else if (plan_.hasReferences) {
      addReference("flight", Op::LINE_FLIGHT);
    }
    for (std::size_t i = 0; i < field_.names().size(); ++i) {
      Task task = task_;
      task.count = std::clamp<std::uint64_t>(plan_.warmUps, 1, Board::kMostOperations);
      task.inARow = false;
      const Field::Result warm = field_.run(i, task);
      if (warm.isLacking) {
        continue;
      }
      task.count = plan_.operations > 0 ? std::min(plan_.operations, Board::kMostOperations)
                                        : countFor(quantile(warm.microseconds, 0.5), task_.bytes);
      task.inARow = task_.inARow;
      series_.push_back({.name = field_.names()[i], .contestant = i, .task = task});
    }
  }

  std::vector<Series> measure() {
    std::vector<Series> series = series_;
    for (std::size_t round = 0; round < plan_.rounds; ++round) {
      for (std::size_t turn = 0; turn < series.size(); ++turn) {
        Series& next = series[(round + turn) % series.size()];
        const Field::Result result = field_.run(next.contestant, next.task);
        next.p10.push_back(quantile(result.microseconds, 0.1));
        next.p50.push_back(quantile(result.microseconds, 0.5));
        next.p99.push_back(quantile(result.microseconds, 0.99));
        next.mean.push_back(
            std::accumulate(result.microseconds.begin(), result.microseconds.end(), 0.0) /
            static_cast<double>(result.microseconds.size()));
        next.wrong += result.wrong;
      }
    }
    return series;
  }

  CollectiveRow rowOf(const Series& series, const std::vector<Series>& all,
                      const std::string& name) const {
    CollectiveRow row{
        .peer = series.name, .isReference = series.isReference, .op = name, .size = task_.bytes};
    // There and back are two flights.
    const double parts = series.task.op == Op::LINE_FLIGHT ? 2 : 1;
    row.p10 = median(series.p10) / parts;
    row.p50 = median(series.p50) / parts;
    row.p99 = median(series.p99) / parts;
    row.algorithmGBs = static_cast<double>(task_.bytes) / row.p50 / 1000;
    row.busGBs = row.algorithmGBs * busFactor(series.task.op, plan_.ranks);
    row.mean = median(series.mean) / parts;
    row.wrong = series.wrong;
    const auto first =
        std::find_if(all.begin(), all.end(), [](const Series& each) { return !each.isReference; });
    if (!series.isReference && series.contestant != first->contestant) {
      std::vector<double> ratios;
      for (std::size_t round = 0; round < plan_.rounds; ++round) {
        ratios.push_back(series.p50[round] / first->p50[round]);
      }
      row.ratio = median(ratios);
      row.ratioLeast = *std::min_element(ratios.begin(), ratios.end());
      row.ratioMost = *std::max_element(ratios.begin(), ratios.end());
    }
    return row;
  }

  Field& field_;
  const CollectivePlan& plan_;
  const Task task_;
  std::vector<Series> series_;
};

}  // namespace

std::optional<Op> opCalled(const std::string& name) {
  const auto* found = std::find_if(std::begin(kOps), std::end(kOps),
                                   [&](const Named& each) { return name == each.name; });
  return found == std::end(kOps) ? std::nullopt : std::optional(found->op);
}

std::string opNames() {
  std::string all;
  for (const Named& each : kOps) {
    all += str(all.empty() ? "" : ", ", each.name);
  }
  return all;
}

std::vector<CollectiveRow> compareCollectives(Field& field, const CollectivePlan& plan,
                                              const Tell& tell) {
  std::vector<CollectiveRow> rows;
  for (const std::string& name : plan.ops) {
    const Op op = opCalled(name).value();
    std::vector<std::uint64_t> sizes = plan.sizes;
    if (op == Op::BARRIER) {
      sizes = {0};
    }
    for (const std::uint64_t size : sizes) {
      const std::uint64_t parts = isCut(op) ? static_cast<std::uint64_t>(plan.ranks) : 1;
      if (op != Op::BARRIER && size < parts * bytesOf(plan.element)) {
        continue;  // not a number for each rank
      }
      tell(name, size);
      const Task task{op,       size, 0, plan.element, plan.inARow, plan.reduction, plan.isChecked,
                      plan.root};
      const std::vector<CollectiveRow> more = Cell(field, plan, task).run(name);
      rows.insert(rows.end(), more.begin(), more.end());
    }
  }
  return rows;
}

}  // namespace unisono::bench

#include "bench/collective/comparison.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "bench/store/compare.hpp"

namespace unisono::bench {
namespace {

struct Named {
  const char* name;
  Op op;
};
constexpr Named kOps[] = {{"all_reduce", Op::ALL_REDUCE}, {"broadcast", Op::BROADCAST},
                          {"all_gather", Op::ALL_GATHER}, {"reduce_scatter", Op::REDUCE_SCATTER},
                          {"all_to_all", Op::ALL_TO_ALL}, {"barrier", Op::BARRIER},
                          {"ping_pong", Op::PING_PONG}};

constexpr double kNoise = 0.15;

/// The value that the fraction `part` does not exceed.
double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const auto at = static_cast<std::size_t>(std::ceil(part * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(at, 1, values.size()) - 1];
}

/// How long it takes to copy so many bytes: what the machine is like at the moment.
double copyTime(std::uint64_t bytes) {
  const std::size_t size = std::max<std::size_t>(bytes, 1U << 20U);
  static std::vector<char> from;
  static std::vector<char> to;
  from.resize(std::max(from.size(), size));
  to.resize(std::max(to.size(), size));
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    std::memcpy(to.data(), from.data(), size);
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return quantile(std::move(times), 0.5);
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
  return op == Op::ALL_REDUCE  ? 2 * share
         : op == Op::PING_PONG ? 2
         : op == Op::BROADCAST ? 1
                               : share;
}

/// The rounds of one operation and size.
class Cell {
 public:
  Cell(Contest& contest, const CollectivePlan& plan, Task task)
      : contest_(contest), plan_(plan), task_(task), figures_(contest.names().size()) {}

  std::vector<CollectiveRow> run(const std::string& name) {
    const std::size_t many = figures_.size();
    for (std::size_t i = 0; i < many; ++i) {
      Task warm = task_;
      warm.count = 6;
      figures_[i].count = countFor(quantile(contest_.run(i, warm).microseconds, 0.5), task_.bytes);
    }
    std::vector<double> copies;
    for (std::size_t round = 0; round < plan_.rounds; ++round) {
      copies.push_back(copyTime(task_.bytes));
      for (std::size_t turn = 0; turn < many; ++turn) {
        measure((round + turn) % many);
      }
    }
    const double least = *std::min_element(copies.begin(), copies.end());
    const double most = *std::max_element(copies.begin(), copies.end());
    std::vector<CollectiveRow> rows;
    for (std::size_t i = 0; i < many; ++i) {
      rows.push_back(rowOf(i, name));
      rows.back().isNoisy = most > least * (1 + kNoise);
    }
    return rows;
  }

 private:
  struct Figures {
    std::uint64_t count = 0;
    std::vector<double> p10;  // of each round
    std::vector<double> p50;
    std::vector<double> p99;
    bool isWrong = false;
  };

  void measure(std::size_t which) {
    Figures& figures = figures_[which];
    Task task = task_;
    task.count = figures.count;
    const Contest::Result result = contest_.run(which, task);
    figures.p10.push_back(quantile(result.microseconds, 0.1));
    figures.p50.push_back(quantile(result.microseconds, 0.5));
    figures.p99.push_back(quantile(result.microseconds, 0.99));
    figures.isWrong = figures.isWrong || result.isWrong;
  }

  CollectiveRow rowOf(std::size_t which, const std::string& name) const {
    const Figures& figures = figures_[which];
    CollectiveRow row{.peer = contest_.names()[which], .op = name, .size = task_.bytes};
    row.p10 = median(figures.p10);
    row.p50 = median(figures.p50);
    row.p99 = median(figures.p99);
    row.algorithmGBs = static_cast<double>(task_.bytes) / row.p50 / 1000;
    row.busGBs = row.algorithmGBs * busFactor(task_.op, plan_.ranks);
    row.isWrong = figures.isWrong;
    if (which > 0) {
      std::vector<double> ratios;
      for (std::size_t round = 0; round < plan_.rounds; ++round) {
        ratios.push_back(figures.p50[round] / figures_[0].p50[round]);
      }
      row.ratio = median(ratios);
      row.ratioLeast = *std::min_element(ratios.begin(), ratios.end());
      row.ratioMost = *std::max_element(ratios.begin(), ratios.end());
    }
    return row;
  }

  Contest& contest_;
  const CollectivePlan& plan_;
  const Task task_;
  std::vector<Figures> figures_;
};

}  // namespace

std::optional<Op> opCalled(const std::string& name) {
  const auto* found = std::find_if(std::begin(kOps), std::end(kOps),
                                   [&](const Named& each) { return name == each.name; });
  return found == std::end(kOps) ? std::nullopt : std::optional(found->op);
}

std::vector<CollectiveRow> compareCollectives(Contest& contest, const CollectivePlan& plan,
                                              const Tell& tell) {
  std::vector<CollectiveRow> rows;
  for (const std::string& name : plan.ops) {
    const Op op = opCalled(name).value();
    std::vector<std::uint64_t> sizes = plan.sizes;
    if (op == Op::BARRIER) {
      sizes = {0};
    }
    for (const std::uint64_t size : sizes) {
      const auto smallest = sizeof(float) * static_cast<std::uint64_t>(plan.ranks);
      const bool isCut = op == Op::ALL_GATHER || op == Op::REDUCE_SCATTER || op == Op::ALL_TO_ALL;
      if (isCut && size < smallest) {
        continue;  // not a number for each rank
      }
      tell(name, size);
      const std::vector<CollectiveRow> more = Cell(contest, plan, {op, size, 0}).run(name);
      rows.insert(rows.end(), more.begin(), more.end());
    }
  }
  return rows;
}

}  // namespace unisono::bench

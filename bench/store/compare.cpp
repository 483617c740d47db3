#include "bench/store/compare.hpp"

#include <algorithm>

namespace unisono::bench {
namespace {

struct Situation {
  std::string verb;
  std::size_t clients;
  std::size_t depth;
};

std::vector<Situation> situations(const Plan& plan) {
  std::vector<Situation> all;
  for (const std::string& verb : plan.verbs) {
    for (const std::size_t depth : plan.depths) {
      for (const std::size_t clients : plan.clients) {
        all.push_back({verb, clients, depth});
      }
    }
  }
  return all;
}

LoadFigures measure(const Peer& peer, const Situation& situation, const Plan& plan) {
  const Dialect dialect = peer.target.dialect;
  Load load(peer.target, situation.clients, plan.patience);
  load.once(exchange(dialect, "set", plan.valueSize));
  const Exchange what = exchange(dialect, situation.verb, plan.valueSize);
  load.run(what, situation.depth, plan.duration / 10);  // warms up
  return load.run(what, situation.depth, plan.duration);
}

template <typename Get>
double medianOf(const std::vector<LoadFigures>& rounds, Get get) {
  std::vector<double> values;
  std::transform(rounds.begin(), rounds.end(), std::back_inserter(values), get);
  return median(std::move(values));
}

Row rowOf(const Peer& peer, const Situation& situation, const std::vector<LoadFigures>& rounds,
          const std::vector<LoadFigures>& first) {
  Row row{.peer = peer.target.name,
          .verb = situation.verb,
          .clients = situation.clients,
          .depth = situation.depth,
          .figures = {.opsPerSecond = medianOf(rounds, [](auto& f) { return f.opsPerSecond; }),
                      .p50Us = medianOf(rounds, [](auto& f) { return f.p50Us; }),
                      .p99Us = medianOf(rounds, [](auto& f) { return f.p99Us; })},
          .ratio = {}};
  if (&rounds != &first) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      ratios.push_back(first[i].opsPerSecond / std::max(rounds[i].opsPerSecond, 1e-9));
    }
    row.ratioLeast = *std::min_element(ratios.begin(), ratios.end());
    row.ratioMost = *std::max_element(ratios.begin(), ratios.end());
    row.ratio = median(std::move(ratios));
  }
  return row;
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::vector<Row> compare(const std::vector<Peer>& peers, const Plan& plan,
                         const Progress& progress) {
  std::vector<Row> rows;
  const std::vector<Situation> all = situations(plan);
  const std::size_t steps = all.size() * plan.rounds * peers.size();
  std::size_t done = 0;
  for (const Situation& situation : all) {
    std::vector<std::vector<LoadFigures>> figures(peers.size());
    for (std::size_t round = 0; round < plan.rounds; ++round) {
      for (std::size_t turn = 0; turn < peers.size(); ++turn) {
        const std::size_t which = (round + turn) % peers.size();
        progress(done++, steps);
        figures[which].push_back(measure(peers[which], situation, plan));
      }
    }
    for (std::size_t i = 0; i < peers.size(); ++i) {
      rows.push_back(rowOf(peers[i], situation, figures[i], figures.front()));
    }
  }
  progress(steps, steps);
  return rows;
}

}  // namespace unisono::bench

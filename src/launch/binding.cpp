#include "launch/binding.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <sched.h>
#include <set>
#include <system_error>
#include <utility>

#include "unisono/base/error.hpp"

#include "base/str.hpp"

namespace unisono::launch {
namespace {

namespace fs = std::filesystem;

constexpr int kMostCores = CPU_SETSIZE;

/// The first number in a file: of a list such as "4-7,12" its lowest.
int firstNumber(const std::string& path, int otherwise) {
  std::ifstream file(path);
  int number = 0;
  return file >> number ? number : otherwise;
}

/// A core is in the folder of its node: cpu3/node1.
int nodeOf(const std::string& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("node") && name.size() > 4 && name[4] >= '0' && name[4] <= '9') {
      return std::stoi(name.substr(4));
    }
  }
  return 0;
}

int cacheOf(const std::string& folder) {
  for (const int level : {4, 3, 2}) {
    const int first = firstNumber(str(folder, "/cache/index", level, "/shared_cpu_list"), -1);
    if (first >= 0) {
      return first;
    }
  }
  return 0;
}

/// The memory nodes, in order.
std::vector<int> nodesOf(const std::vector<Core>& cores) {
  std::set<int> nodes;
  for (const Core& core : cores) {
    nodes.insert(core.node);
  }
  return {nodes.begin(), nodes.end()};
}

/// Those of `cores` that `wanted` holds for.
template <typename Wanted>
std::vector<Core> only(const std::vector<Core>& cores, Wanted wanted) {
  std::vector<Core> some;
  std::copy_if(cores.begin(), cores.end(), std::back_inserter(some), wanted);
  return some;
}

/// One of `parts` parts of `cores`, as equal as can be without parting hyperthreads.
std::vector<Core> share(const std::vector<Core>& cores, int part, int parts) {
  std::map<int, std::vector<Core>> whole;
  for (const Core& core : cores) {
    whole[core.physical].push_back(core);
  }
  const int count = static_cast<int>(whole.size());
  if (count < parts) {
    throw UsageError({.reason = Reason::USAGE,
                      .what = str("--numa-binding exclusive: ", parts, " ranks share ", count,
                                  count == 1 ? " core" : " cores", " of a memory node"),
                      .hint = "start fewer ranks, or bind them to a node"});
  }
  std::vector<Core> mine;
  int at = 0;
  for (const auto& [physical, threads] : whole) {
    if (at >= part * count / parts && at < (part + 1) * count / parts) {
      mine.insert(mine.end(), threads.begin(), threads.end());
    }
    ++at;
  }
  return mine;
}

}  // namespace

std::optional<Binding> bindingNamed(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, Binding>, 4> kNames = {
      {{"node", Binding::NODE},
       {"socket", Binding::SOCKET},
       {"exclusive", Binding::EXCLUSIVE},
       {"core-complex", Binding::CORE_COMPLEX}}};
  const auto* const found = std::find_if(kNames.begin(), kNames.end(),
                                         [&](const auto& known) { return known.first == name; });
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

std::vector<Core> coresOfHost(const std::string& root) {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  ::sched_getaffinity(0, sizeof usable, &usable);
  std::vector<Core> cores;
  for (int number = 0; number < kMostCores; ++number) {
    if (CPU_ISSET(number, &usable)) {
      const std::string folder = str(root, "/cpu", number);
      cores.push_back({.number = number,
                       .node = nodeOf(folder),
                       .package = firstNumber(folder + "/topology/physical_package_id", 0),
                       .cache = cacheOf(folder),
                       .physical = firstNumber(folder + "/topology/thread_siblings_list", number)});
    }
  }
  return cores;
}

int nodeCount(const std::vector<Core>& cores) {
  return std::max(1, static_cast<int>(nodesOf(cores).size()));
}

std::vector<int> coresFor(Binding binding, const std::vector<Core>& cores, int localRank,
                          int workers) {
  if (binding == Binding::NONE || cores.empty()) {
    return {};
  }
  const std::vector<int> nodes = nodesOf(cores);
  const int count = static_cast<int>(nodes.size());
  const auto placeOf = [&](int rank) { return rank * count / workers; };
  const int place = placeOf(localRank);
  int first = localRank;  // of the ranks at this node
  while (first > 0 && placeOf(first - 1) == place) {
    --first;
  }
  int end = localRank + 1;
  while (end < workers && placeOf(end) == place) {
    ++end;
  }
  const int node = nodes[static_cast<std::size_t>(place)];
  std::vector<Core> mine = only(cores, [&](const Core& core) { return core.node == node; });
  if (binding == Binding::SOCKET) {
    mine = only(cores, [package = mine.front().package](const Core& core) {
      return core.package == package;
    });
  } else if (binding == Binding::EXCLUSIVE) {
    mine = share(mine, localRank - first, end - first);
  } else if (binding == Binding::CORE_COMPLEX) {
    std::set<int> caches;
    for (const Core& core : mine) {
      caches.insert(core.cache);
    }
    const auto index = static_cast<std::size_t>(localRank - first) % caches.size();
    const int cache = *std::next(caches.begin(), static_cast<std::ptrdiff_t>(index));
    mine = only(mine, [cache](const Core& core) { return core.cache == cache; });
  }
  std::vector<int> numbers;
  for (const Core& core : mine) {
    numbers.push_back(core.number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace unisono::launch

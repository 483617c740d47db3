#include "base/cgroup.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>

#include "base/str.hpp"

namespace unisono {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

/// The first number in a file; nothing when there is none ("max", no such file).
std::optional<std::int64_t> readNumber(const std::string& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// What the kernel takes back before it ends processes: pages of files that nobody has used
/// lately. `name` is how the file calls them.
std::int64_t reclaimable(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  std::string word;
  std::int64_t number = 0;
  while (file >> word >> number) {  // "inactive_file 4096"
    if (word == name) {
      return std::max<std::int64_t>(number, 0);
    }
  }
  return 0;
}

/// Calls `look` with the folder of every cgroup of this process that has `controller` ("" for
/// version 2), from its own to the root.
void forEachCgroup(const CgroupPlaces& places, std::string_view controller,
                   const std::function<void(const std::string&)>& look) {
  std::ifstream file(places.own);
  for (std::string line; std::getline(file, line);) {  // "4:memory,cpu:/path", or "0::/path"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string names = str(",", line.substr(first + 1, second - first - 1), ",");
    const bool wanted = controller.empty()
                            ? names == ",,"
                            : names.find(str(",", controller, ",")) != std::string::npos;
    if (!wanted) {
      continue;
    }
    const std::string root = controller.empty() ? places.root : str(places.root, "/", controller);
    for (std::string path = line.substr(second + 1); !path.empty();
         path.resize(std::min(path.rfind('/'), path.size()))) {
      look(root + (path == "/" ? "" : path));
    }
    look(root);
  }
}

}  // namespace

std::uint64_t cgroupMemoryLeft(const CgroupPlaces& places) {
  std::uint64_t left = kNoLimit;
  const auto note = [&](std::optional<std::int64_t> limit, std::optional<std::int64_t> used,
                        std::int64_t idle) {
    if (limit && used && *limit >= 0 && *used >= 0) {
      const std::int64_t taken = *used - std::min(*used, idle);
      const auto room = static_cast<std::uint64_t>(std::max<std::int64_t>(*limit - taken, 0));
      left = std::min(left, room);
    }
  };
  forEachCgroup(places, "", [&](const std::string& folder) {
    note(readNumber(folder + "/memory.max"), readNumber(folder + "/memory.current"),
         reclaimable(folder + "/memory.stat", "inactive_file"));
  });
  forEachCgroup(places, "memory", [&](const std::string& folder) {
    note(readNumber(folder + "/memory.limit_in_bytes"),
         readNumber(folder + "/memory.usage_in_bytes"),
         reclaimable(folder + "/memory.stat", "total_inactive_file"));
  });
  return left;
}

double cgroupCpuQuota(const CgroupPlaces& places) {
  double quota = std::numeric_limits<double>::max();
  const auto note = [&](double allowed, double period) {
    if (allowed > 0 && period > 0) {
      quota = std::min(quota, allowed / period);
    }
  };
  forEachCgroup(places, "", [&](const std::string& folder) {
    std::ifstream file(folder + "/cpu.max");  // "max 100000", or "50000 100000"
    double allowed = 0;
    double period = 0;
    if (file >> allowed >> period) {
      note(allowed, period);
    }
  });
  forEachCgroup(places, "cpu", [&](const std::string& folder) {
    note(static_cast<double>(readNumber(folder + "/cpu.cfs_quota_us").value_or(-1)),
         static_cast<double>(readNumber(folder + "/cpu.cfs_period_us").value_or(-1)));
  });
  return quota;
}

std::uint64_t hostMemoryLeft(const std::string& meminfo) {
  std::ifstream file(meminfo);
  for (std::string line; std::getline(file, line);) {  // "MemAvailable:   23671000 kB"
    constexpr std::string_view kName = "MemAvailable:";
    if (line.starts_with(kName)) {
      return std::strtoull(line.c_str() + kName.size(), nullptr, 10) * 1024;
    }
  }
  return kNoLimit;
}

std::uint64_t memoryLeft() {
  return std::min(cgroupMemoryLeft(CgroupPlaces{}), hostMemoryLeft("/proc/meminfo"));
}

std::uint64_t addressSpaceLeft() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return kNoLimit;
  }
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;  // the first number: all that is mapped
  const std::uint64_t used = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return limit.rlim_cur - std::min<std::uint64_t>(limit.rlim_cur, used);
}

double cgroupCpuQuota() {
  return cgroupCpuQuota(CgroupPlaces{});
}

}  // namespace unisono

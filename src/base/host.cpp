#include "base/host.hpp"

#include <algorithm>
#include <sched.h>

#include "base/cgroup.hpp"
#include "base/env.hpp"
#include "base/process.hpp"

namespace unisono {
namespace {

UNISONO_KNOB(std::string, kHostId, "UNISONO_HOST_ID", "",
             "names this host for others; empty = the kernel's id of this boot");

}  // namespace

std::string hostId() {
  std::string asked = kHostId.value();
  return asked.empty() ? thisProcess().boot : asked;
}

int usableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int allowed = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  const double quota = cgroupCpuQuota();
  const int whole = quota < allowed ? static_cast<int>(quota + 0.5) : allowed;
  return std::max(whole, 1);
}

}  // namespace unisono

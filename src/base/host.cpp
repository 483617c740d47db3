#include "base/host.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <sched.h>
#include <sys/stat.h>
#include <utility>

#include "base/cgroup.hpp"
#include "base/env.hpp"
#include "base/process.hpp"
#include "base/str.hpp"

namespace unisono {
namespace {

UNISONO_KNOB(
    std::string, kHostId, "UNISONO_HOST_ID", "",
    "names this host for others; empty = the kernel's ids of this boot and of this network");

thread_local std::string pretended;

}  // namespace

PretendedHost::PretendedHost(std::string id) {
  pretended = std::move(id);
}

PretendedHost::~PretendedHost() {
  pretended.clear();
}

std::string hostId() {
  if (!pretended.empty()) {
    return pretended;
  }
  std::string asked = kHostId.value();
  if (!asked.empty()) {
    return asked;
  }
  // Containers may have a kernel in common, and yet none of the sockets by which memory is shared.
  struct stat network {};
  const bool isKnown = ::stat("/proc/self/ns/net", &network) == 0;
  return isKnown ? str(thisProcess().boot, "/", network.st_ino) : thisProcess().boot;
}

void CpuShare::join(const CpuShare& other) noexcept {
  for (std::size_t word = 0; word < std::size(cores); ++word) {
    cores[word] |= other.cores[word];
  }
  quota = std::min(quota, other.quota);
}

int CpuShare::count() const noexcept {
  int allowed = 0;
  for (const std::uint64_t word : cores) {
    allowed += std::popcount(word);
  }
  return std::max(1, std::min(allowed, static_cast<int>(std::min<std::size_t>(quota, kMostCores))));
}

CpuShare cpuShare() {
  // The kernel refuses less than it has, and cpu_set_t ends at 1,024.
  std::array<std::uint64_t, 128> allowed{};
  if (::sched_getaffinity(0, sizeof allowed, reinterpret_cast<cpu_set_t*>(allowed.data())) != 0) {
    allowed = {1};
  }
  CpuShare share{};
  for (std::size_t word = 0; word < allowed.size(); ++word) {
    share.cores[word % std::size(share.cores)] |= allowed[word];
  }
  const double quota = cgroupCpuQuota();
  share.quota = quota < CpuShare::kMostCores ? std::max(1U, static_cast<std::uint32_t>(quota + 0.5))
                                             : static_cast<std::uint32_t>(CpuShare::kMostCores);
  return share;
}

int usableCores() {
  return cpuShare().count();
}

}  // namespace unisono

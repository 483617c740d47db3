// Cgroup: how much memory and processor time the control groups of this process leave it.
#pragma once

#include <cstdint>
#include <string>

namespace unisono {

/// Bytes that this process may still use before its memory cgroup, or one above it, is full;
/// the largest number where there is no limit. Reserving more than that does not fail: the kernel
/// ends the process.
std::uint64_t cgroupMemoryLeft();

/// Cores' worth of time that the CPU cgroups allow; a very large number where there is no limit.
double cgroupCpuQuota();

/// The same from other places than /proc and /sys/fs/cgroup, for tests.
struct CgroupPlaces {
  std::string own = "/proc/self/cgroup";
  std::string root = "/sys/fs/cgroup";
};
std::uint64_t cgroupMemoryLeft(const CgroupPlaces& places);
double cgroupCpuQuota(const CgroupPlaces& places);

}  // namespace unisono

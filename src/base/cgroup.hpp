// Cgroup: how much memory and processor time this process may still use.
#pragma once

#include <cstdint>
#include <string>

namespace unisono {

/// Bytes that this process may still use: what the host has left, or its memory cgroup, or one
/// above it. Reserving more than that does not fail: the kernel ends processes.
std::uint64_t memoryLeft();

/// Bytes that this process may still map (RLIMIT_AS); the largest number where there is no limit.
std::uint64_t addressSpaceLeft();

/// Cores' worth of time that the CPU cgroups allow; a very large number where there is no limit.
double cgroupCpuQuota();

/// The parts of it, from other places than /proc and /sys/fs/cgroup, for tests; the largest number
/// where there is no limit.
struct CgroupPlaces {
  std::string own = "/proc/self/cgroup";
  std::string root = "/sys/fs/cgroup";
};
std::uint64_t cgroupMemoryLeft(const CgroupPlaces& places);
std::uint64_t hostMemoryLeft(const std::string& meminfo);
double cgroupCpuQuota(const CgroupPlaces& places);

}  // namespace unisono

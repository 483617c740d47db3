// Host: which machine this is, and how much of it this process may use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace unisono {

/// How much of the host's processors somebody may use. A plain value: processes of one host
/// exchange it through shared memory.
struct CpuShare {
  /// Cores are told apart by their number modulo this.
  static constexpr std::size_t kMostCores = 960;

  std::uint64_t cores[kMostCores / 64];  // a bit per core
  std::uint32_t quota;                   // whole cores' time; kMostCores: as much as there is
  std::uint32_t padding;

  /// What both together may use: the cores of either, in no more than the smaller quota.
  void join(const CpuShare& other) noexcept;
  /// At least 1.
  int count() const noexcept;
};
static_assert(sizeof(CpuShare) == 128);

/// Of the calling thread: its affinity, and the CPU quota of its cgroups.
CpuShare cpuShare();

/// Names the host: equal for processes that may share memory. It is the id of the kernel's boot
/// and of its network namespace, or what UNISONO_HOST_ID says. Equal ids are a hint; that memory
/// can be shared is proven by sharing it.
std::string hostId();

/// While it lives, hostId() is this for the thread that made it: so tests whose ranks are threads
/// of one process have several hosts.
class PretendedHost {
 public:
  explicit PretendedHost(std::string id);
  ~PretendedHost();
  PretendedHost(const PretendedHost&) = delete;
  PretendedHost& operator=(const PretendedHost&) = delete;
};

/// How many cores those are.
int usableCores();

}  // namespace unisono

// Host: which machine this is, and how much of it this process may use.
#pragma once

#include <string>

namespace unisono {

/// Names the host: equal for processes that may share memory. It is the id of the kernel's boot,
/// or what UNISONO_HOST_ID says. Equal ids are a hint; that memory can be shared is proven by
/// sharing it.
std::string hostId();

/// Cores that this process may run on: its affinity, cut to the CPU quota of its cgroups; at
/// least 1.
int usableCores();

}  // namespace unisono

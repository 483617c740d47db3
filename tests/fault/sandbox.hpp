// Sandbox: what a process is denied, for itself and what it starts.
#pragma once

#include <cstdint>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace unisono::fault {

/// From now on the system call gives EPERM, in all threads.
void denySystemCalls(const std::vector<int>& numbers);

/// Whether this process may have mounts of its own.
bool mayMount();

/// Puts a tmpfs over `path` that only this process sees; `options` as of mount(8), "size=1m".
void coverWithTmpfs(const std::string& path, const std::string& options, bool readOnly = false);

/// From now on this process may map so many bytes more.
void limitAddresses(std::uint64_t more);

/// While it lives, no more than `count` descriptors can be opened beyond those that are open.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(int count);
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace unisono::fault

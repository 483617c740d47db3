// Guardian: a process that kills what ranks have started when the launcher is killed, and removes
// their files.
//
// The kernel kills the ranks themselves then, but not their children. The guardian does nothing as
// long as the launcher lives, and goes with it.
//
// Thread safety: for one thread at a time.
#pragma once

#include <string>
#include <sys/types.h>

#include "base/fd.hpp"

namespace unisono::launch {

class Guardian {
 public:
  /// Starts it; `leftover` is a file or folder that is to go with the launcher. To be called while
  /// the process has one thread. Throws DistError (RESOURCE) when there are too many processes or
  /// descriptors.
  explicit Guardian(const std::string& leftover);
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  /// From now on the process group `group` is to end with us. To be called before anybody in it
  /// may outlive us.
  void watch(pid_t group) noexcept;

  /// It is not ours any more; to be called while its number is still its own.
  void forget(pid_t group) noexcept;

 private:
  UniqueFd pipe_;  // the guardian reads numbers from it, and sees our end
};

}  // namespace unisono::launch

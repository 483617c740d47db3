#include "fault/sandbox.hpp"

#include <cstddef>
#include <fcntl.h>
#include <fstream>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fault/row.hpp"
#include "support/server_process.hpp"

namespace unisono::fault {
namespace {

bool hasOwnMounts() {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

}  // namespace

void denySystemCalls(const std::vector<int>& numbers) {
  std::vector<sock_filter> program = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
  };
  for (const int number : numbers) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{.len = static_cast<unsigned short>(program.size()),
                          .filter = program.data()};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0) {
    throw Skipped("no system calls can be denied here");
  }
}

bool mayMount() {
  test::Process attempt([] { return hasOwnMounts() ? 0 : 1; });
  return attempt.join() == 0;
}

void coverWithTmpfs(const std::string& path, const std::string& options, bool readOnly) {
  require(hasOwnMounts() && ::mount("none", path.c_str(), "tmpfs", readOnly ? MS_RDONLY : 0,
                                    options.c_str()) == 0,
          "no tmpfs over ", path);
}

void limitAddresses(std::uint64_t more) {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + more;
  const rlimit limit{.rlim_cur = most, .rlim_max = most};
  require(::setrlimit(RLIMIT_AS, &limit) == 0, "the addresses cannot be limited");
}

DescriptorLimit::DescriptorLimit(int count) {
  rlim_t limit = 0;
  for (int free = 0; free < count || ::fcntl(static_cast<int>(limit), F_GETFD) >= 0; ++limit) {
    free += ::fcntl(static_cast<int>(limit), F_GETFD) < 0 ? 1 : 0;
  }
  ::getrlimit(RLIMIT_NOFILE, &before_);
  const rlimit few{.rlim_cur = limit, .rlim_max = before_.rlim_max};
  require(::setrlimit(RLIMIT_NOFILE, &few) == 0, "the descriptors cannot be limited");
}

}  // namespace unisono::fault

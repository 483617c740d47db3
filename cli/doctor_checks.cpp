#include "doctor_checks.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "unisono/version.hpp"

#include "base/cgroup.hpp"
#include "base/env.hpp"
#include "base/fd.hpp"
#include "base/host.hpp"
#include "base/str.hpp"
#include "bench/process.hpp"

namespace unisono::cli {
namespace {

using enum Finding::State;

constexpr std::uint64_t kLittleMemory = 256U << 20U;
constexpr std::uint64_t kNoMemory = 32U << 20U;
constexpr rlim_t kFewFiles = 1024;
constexpr rlim_t kFewProcesses = 256;

std::string valueOf(const Patient& patient, const char* file, std::string_view key) {
  std::ifstream in(patient.root + file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key)) {
      const std::size_t colon = line.find(':');
      const std::size_t begin =
          colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
      return begin == std::string::npos ? "" : line.substr(begin);
    }
  }
  return "";
}

Finding lookAtVersion(const Patient& /*patient*/) {
  utsname name{};
  int major = 0;
  int minor = 0;
  if (::uname(&name) != 0 || std::sscanf(name.release, "%d.%d", &major, &minor) != 2) {
    return {WARN, str("unisono ", UNISONO_VERSION_STRING, " on an unknown kernel"), "use Linux"};
  }
  const std::string what =
      str("unisono ", UNISONO_VERSION_STRING, ", ", name.sysname, " ", name.release);
  return major > 5 || (major == 5 && minor >= 6)
             ? Finding{OK, what}
             : Finding{WARN, what, "use Linux 5.6 or newer: nobody has tried older ones"};
}

Finding lookAtProcessor(const Patient& patient) {
  const std::string model = valueOf(patient, "/proc/cpuinfo", "model name");
  return {OK, model.empty() ? "unknown" : model};
}

Finding lookAtCores(const Patient& /*patient*/) {
  const auto all = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  const int usable = usableCores();
  const std::string what = str(usable, " of ", all, " can be used");
  if (usable < 2) {
    return {WARN, what, "give it more (taskset, the container's cpuset): ranks wait in turns"};
  }
  return {OK, str(what, "; more ranks than that share them")};
}

Finding lookAtCpuLimit(const Patient& patient) {
  const double quota = cgroupCpuQuota(
      {.own = patient.root + "/proc/self/cgroup", .root = patient.root + "/sys/fs/cgroup"});
  const auto cores = static_cast<double>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  if (quota >= cores) {
    return {OK, "the control group allows all of the processor time"};
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", quota);
  return {WARN, str("the control group allows the time of ", text.data(), " cores"),
          "raise the limit (docker run --cpus, resources.limits.cpu), or start fewer ranks"};
}

Finding lookAtMemory(const Patient& patient) {
  const std::uint64_t left = std::min(hostMemoryLeft(patient.root + "/proc/meminfo"),
                                      cgroupMemoryLeft({.own = patient.root + "/proc/self/cgroup",
                                                        .root = patient.root + "/sys/fs/cgroup"}));
  const std::string what = str(formatBytes(left >> 20U << 20U), " can be used");
  const std::string remedy = "free some, raise the container's limit, or start fewer ranks";
  return left < kNoMemory       ? Finding{FAIL, what, remedy}
         : left < kLittleMemory ? Finding{WARN, what, remedy}
                                : Finding{OK, what};
}

Finding lookAtSharedMemory(const Patient& /*patient*/) {
  ::signal(SIGXFSZ, SIG_IGN);  // a limit on files is told, not died of
  const UniqueFd memory(::memfd_create("unisono-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory.valid() && ::ftruncate(memory.get(), 4096) == 0) {
    return {OK, "memory can be shared (memfd)"};
  }
  return {FAIL, str("memory cannot be shared: ", errnoDetail(errno)),
          "let the sandbox allow memfd_create, and files of any size (ulimit -f unlimited)"};
}

Finding lookAtDevShm(const Patient& patient) {
  struct statvfs about {};
  const std::string folder = patient.root + "/dev/shm";
  if (::statvfs(folder.c_str(), &about) != 0) {
    return {OK, "there is none, and none is needed"};
  }
  return {OK, str(formatBytes(std::uint64_t{about.f_blocks} * about.f_frsize >> 20U << 20U),
                  "; only other libraries need it")};
}

/// Long messages are read from process to process, which is as forbidden as debugging is.
Finding lookAtPulling(const Patient& patient) {
  constexpr unsigned kPtrace = 19;  // CAP_SYS_PTRACE
  std::uint64_t word = 1;
  std::uint64_t copy = 0;
  const iovec to{.iov_base = &copy, .iov_len = sizeof copy};
  const iovec from{.iov_base = &word, .iov_len = sizeof word};
  if (::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) != sizeof copy) {
    return {WARN, str("process_vm_readv is forbidden: ", errnoDetail(errno)),
            "let the sandbox allow it (docker run --cap-add SYS_PTRACE); until then long blocks "
            "are copied twice"};
  }
  const std::string scope = firstLineOf(patient, "/proc/sys/kernel/yama/ptrace_scope");
  const std::string rights = valueOf(patient, "/proc/self/status", "CapEff");
  const bool isMighty = (std::strtoull(rights.c_str(), nullptr, 16) >> kPtrace & 1U) != 0;
  if (scope.empty() || scope == "0" || (isMighty && scope != "3")) {
    return {OK, "ranks may read from each other"};
  }
  return {WARN, str("ranks may not read from each other (ptrace_scope is ", scope, ")"),
          "sysctl -w kernel.yama.ptrace_scope=0; until then long blocks are copied twice"};
}

Finding lookAtHugePages(const Patient& patient) {
  const std::string line =
      firstLineOf(patient, "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  const std::size_t begin = line.find('[');
  const std::size_t end = line.find(']');
  if (begin == std::string::npos || end < begin) {
    return {OK, "not known for shared memory"};
  }
  const std::string mode = line.substr(begin + 1, end - begin - 1);
  return {OK,
          str("for shared memory: ", mode,
              mode == "never" || mode == "deny" ? "; 'advise' may speed up large tensors" : "")};
}

std::string limitText(rlim_t limit) {
  return limit == RLIM_INFINITY ? "without limit" : str(limit);
}

Finding lookAtFiles(const Patient& /*patient*/) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const std::string what = str(limitText(limit.rlim_max), " at most (", limitText(limit.rlim_cur),
                               " unless a server raises it)");
  return limit.rlim_max < kFewFiles
             ? Finding{WARN, what,
                       "ulimit -Hn 65536, as root or in limits.conf: a store needs one "
                       "for each of its clients"}
             : Finding{OK, what};
}

Finding lookAtProcesses(const Patient& /*patient*/) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NPROC, &limit);
  const std::string what = str(limitText(limit.rlim_max), ", threads counted");
  return limit.rlim_max < kFewProcesses
             ? Finding{WARN, what, "ulimit -u 4096, as root or in limits.conf"}
             : Finding{OK, what};
}

Finding lookAtLockedMemory(const Patient& /*patient*/) {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  return {OK, str(limit.rlim_max == RLIM_INFINITY ? "without limit" : formatBytes(limit.rlim_max),
                  "; none is needed")};
}

Finding lookAtVariables(const Patient& /*patient*/) {
  std::vector<const char*> all;
  std::size_t known = 0;
  for (char** each = environ; *each != nullptr; ++each) {
    all.push_back(*each);
    known += std::string_view(*each).starts_with("UNISONO_") ? 1 : 0;
  }
  std::vector<std::string> names;
  std::vector<std::string> remedies;
  for (const UnknownVariable& each : unknownVariables(all)) {
    names.push_back(each.name);
    remedies.push_back(each.meant.empty() ? str("unset ", each.name)
                                          : str("did you mean ", each.meant, "?"));
  }
  if (names.empty()) {
    return {OK, str(known, " UNISONO_ variables, all of them known")};
  }
  return {WARN, str("not known: ", join(names, ", ")),
          str(join(remedies, ", "), "; unisono info --env lists them all")};
}

/// "1.2.3" of NAME-1.2.3.dist-info in one of the folders; empty when it is not there.
std::string packageIn(const std::vector<std::filesystem::path>& folders, const std::string& name) {
  std::error_code none;
  for (const auto& folder : folders) {
    for (const auto& each : std::filesystem::directory_iterator(folder, none)) {
      const std::string file = each.path().filename();
      if (file.starts_with(name + "-") && file.ends_with(".dist-info")) {
        return file.substr(name.size() + 1, file.rfind('.') - name.size() - 1);
      }
    }
  }
  return "";
}

/// Without starting it, which would take long.
Finding lookAtPython(const Patient& patient) {
  std::error_code none;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
  const bool isBeside = patient.root.empty() && ::access((self / "python3").c_str(), X_OK) == 0;
  const std::string found = isBeside               ? (self / "python3").string()
                            : patient.root.empty() ? bench::findProgram("python3")
                                                   : patient.root + "/bin/python3";
  if (found.empty() || ::access(found.c_str(), X_OK) != 0) {
    return {WARN, "there is no python3", "nothing, unless ranks are Python programs"};
  }
  std::vector<std::filesystem::path> folders;
  const auto home = std::filesystem::path(found).parent_path().parent_path();
  for (const auto& each : std::filesystem::directory_iterator(home / "lib", none)) {
    if (each.path().filename().string().starts_with("python3")) {
      folders.push_back(each.path() / "site-packages");
      folders.push_back(each.path() / "dist-packages");
    }
  }
  if (folders.empty()) {  // a script that chooses between several
    return {OK, str(found, ", whose packages cannot be seen from here")};
  }
  std::string what = found;
  for (const char* name : {"unisono", "numpy", "torch"}) {
    const std::string version = packageIn(folders, name);
    what += version.empty() ? str(", no ", name) : str(", ", name, " ", version);
  }
  const std::string ours = packageIn(folders, "unisono");
  if (ours.empty()) {
    return {WARN, what, str(found, " -m pip install . (in the source tree), for Python programs")};
  }
  if (ours != UNISONO_VERSION_STRING) {
    return {WARN, what, str("install version ", UNISONO_VERSION_STRING, " there: this program's")};
  }
  return {OK, what};
}

Finding lookAtPeers(const Patient& /*patient*/) {
  std::vector<std::string> found;
  for (const char* name : {"mpirun.openmpi", "mpirun.mpich", "redis-server"}) {
    if (!bench::findProgram(name).empty()) {
      found.emplace_back(name);
    }
  }
  return {OK, found.empty() ? "none is installed; only bench --compare would use them"
                            : str(join(found, ", "), "; for bench --compare")};
}

constexpr std::array kChecks = {
    Check{"version", lookAtVersion},
    Check{"processor", lookAtProcessor},
    Check{"vectors", lookAtVectors},
    Check{"cores", lookAtCores},
    Check{"memory nodes", lookAtMemoryNodes},
    Check{"cpu limit", lookAtCpuLimit},
    Check{"threads", lookAtThreads},
    Check{"memory", lookAtMemory},
    Check{"shared memory", lookAtSharedMemory},
    Check{"/dev/shm", lookAtDevShm},
    Check{"locked memory", lookAtLockedMemory},
    Check{"pulling", lookAtPulling},
    Check{"pidfd", lookAtProcessHandles},
    Check{"huge pages", lookAtHugePages},
    Check{"open files", lookAtFiles},
    Check{"processes", lookAtProcesses},
    Check{"loopback", lookAtLoopback},
    Check{"interfaces", lookAtInterfaces},
    Check{"ipv6", lookAtIpv6},
    Check{"proxies", lookAtProxies},
    Check{"host name", lookAtHostName},
    Check{"ports", lookAtPorts},
    Check{"variables", lookAtVariables},
    Check{"python", lookAtPython},
    Check{"others", lookAtPeers},
};

}  // namespace

std::string firstLineOf(const Patient& patient, const std::string& file) {
  std::ifstream in(patient.root + file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::span<const Check> checks() {
  return kChecks;
}

}  // namespace unisono::cli

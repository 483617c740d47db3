#include "base/shared_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "base/cgroup.hpp"
#include "base/str.hpp"

namespace unisono {
namespace {

// What is left to the rest of the process and of the host.
constexpr std::uint64_t kMemoryReserve = 64U << 20U;

constexpr unsigned kNoExecSeal = 0x0008U;  // MFD_NOEXEC_SEAL of newer headers

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

ErrorFacts lack(std::string_view subject, std::size_t bytes, std::string_view why) {
  return {.reason = Reason::RESOURCE,
          .what = str("no shared memory of ", formatBytes(bytes), " for ", subject, ": ", why),
          .hint = "free memory or raise the limit of this process"};
}
[[noreturn]] void refuse(std::string_view subject, std::size_t bytes, std::string_view why) {
  throw SharedMemory::NoRoom(lack(subject, bytes, why));
}

std::string textOfErrno(int error) {
  return std::system_category().message(error);
}

/// A memfd is a file, too: making it longer would end the process (SIGXFSZ).
std::uint64_t mostInOneFile() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

UniqueFd makeMemfd(std::size_t bytes, std::string_view subject) {
  int fd = ::memfd_create("unisono", MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal);
  if (fd < 0 && errno == EINVAL) {  // a kernel that does not know the last flag
    fd = ::memfd_create("unisono", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  }
  if (fd < 0) {
    throw DistError(lack(subject, bytes, str("memfd_create: ", textOfErrno(errno))));
  }
  return UniqueFd(fd);
}

}  // namespace

std::uint64_t SharedMemory::room() {
  const std::uint64_t left = memoryLeft();
  return std::min({left - std::min(left, kMemoryReserve), roomToMap(), mostInOneFile()});
}

std::uint64_t SharedMemory::roomToMap() {
  const std::uint64_t left = addressSpaceLeft();
  return left - std::min(left, kMemoryReserve);
}

bool SharedMemory::isDenied() noexcept {
  const UniqueFd attempt(::memfd_create("unisono", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  return !attempt.valid() && (errno == ENOSYS || errno == EPERM || errno == EACCES);
}

SharedMemory SharedMemory::create(std::size_t bytes, std::string_view subject, Fork fork) {
  if (const std::uint64_t left = room(); left < bytes) {
    refuse(subject, bytes, str("only ", formatBytes(left), " are left to this process"));
  }
  SharedMemory memory;
  memory.fd_ = makeMemfd(bytes, subject);
  // Reserved now: without room later, the access itself would end the process.
  if (const int error = ::posix_fallocate(memory.fd_.get(), 0, static_cast<off_t>(bytes))) {
    refuse(subject, bytes, textOfErrno(error));
  }
  if (::fcntl(memory.fd_.get(), F_ADD_SEALS, kSeals) != 0) {
    refuse(subject, bytes, str("sealing it: ", textOfErrno(errno)));
  }
  memory.map(bytes, subject, fork);
  return memory;
}

SharedMemory SharedMemory::adopt(UniqueFd fd, std::size_t bytes, std::string_view subject,
                                 Fork fork) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  struct stat status {};
  const bool sized =
      ::fstat(fd.get(), &status) == 0 && static_cast<std::uint64_t>(status.st_size) == bytes;
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || !sized) {
    throw DistError({.reason = Reason::PROTOCOL,
                     .what = str("the memory received for ", subject, " is ",
                                 seals < 0 ? "no memfd"
                                 : sized   ? "not sealed"
                                           : "of another size"),
                     .hint = "all ranks must run the same version of unisono"});
  }
  SharedMemory memory;
  memory.fd_ = std::move(fd);
  memory.map(bytes, subject, fork);
  return memory;
}

void SharedMemory::map(std::size_t bytes, std::string_view subject, Fork fork) {
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_.get(), 0);
  if (address == MAP_FAILED) {
    refuse(subject, bytes, str("mmap: ", textOfErrno(errno)));
  }
  bytes_ = {static_cast<std::byte*>(address), bytes};
  fork_ = fork;
  if (fork == Fork::LEFT_OUT) {
    ::madvise(address, bytes, MADV_DONTFORK);
    ::madvise(address, bytes, MADV_DONTDUMP);
  }
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)),
      bytes_(std::exchange(other.bytes_, {})),
      madeIn_(other.madeIn_),
      fork_(other.fork_) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this != &other) {
    unmap();
    fd_ = std::move(other.fd_);
    bytes_ = std::exchange(other.bytes_, {});
    madeIn_ = other.madeIn_;
    fork_ = other.fork_;
  }
  return *this;
}

void SharedMemory::unmap() noexcept {
  // In a child that did not inherit the mapping, the address may be somebody else's by now.
  const bool ours = fork_ == Fork::INHERITED || !madeIn_.inChild();
  if (bytes_.data() != nullptr && ours) {
    ::munmap(bytes_.data(), bytes_.size());
  }
  bytes_ = {};
}

}  // namespace unisono

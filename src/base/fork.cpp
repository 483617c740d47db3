#include "base/fork.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <pthread.h>
#include <unistd.h>

#include "unisono/base/error.hpp"

#include "base/str.hpp"

namespace unisono {
namespace {

// One bit per descriptor. A fixed table, because the child handler may neither lock nor
// allocate. Descriptors beyond it are not closed in children: 2^20 is the kernel's default
// ceiling for a process (fs.nr_open).
constexpr std::size_t kMaxFds = 1U << 20U;
constinit std::array<std::atomic<std::uint64_t>, kMaxFds / 64> ownedFds{};
constinit std::atomic<std::uint32_t> generation{0};

void inChild() noexcept {
  generation.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t word = 0; word < ownedFds.size(); ++word) {
    std::uint64_t bits = ownedFds[word].load(std::memory_order_relaxed);
    if (bits == 0) {
      continue;  // without a store: every fork would copy the whole table's pages
    }
    ownedFds[word].store(0, std::memory_order_relaxed);
    while (bits != 0) {
      const int bit = std::countr_zero(bits);
      ::close(static_cast<int>(word * 64) + bit);
      bits &= bits - 1;
    }
  }
}

/// Installs the child handler on first use.
void install() noexcept {
  static const int installed = ::pthread_atfork(nullptr, nullptr, inChild);
  static_cast<void>(installed);
}

}  // namespace

std::uint32_t forkGeneration() noexcept {
  install();
  return generation.load(std::memory_order_relaxed);
}

void ForkGuard::refuse(std::string_view subject) {
  throw UsageError({.reason = Reason::FORKED,
                    .what = str(subject, " was made before fork() and cannot be used in the child"),
                    .hint = "make a new one in the child, or start it with exec",
                    .pid = ::getpid()});
}

void rememberFd(int fd) noexcept {
  install();
  if (fd >= 0 && static_cast<std::size_t>(fd) < kMaxFds) {
    const auto index = static_cast<std::size_t>(fd);
    ownedFds[index / 64].fetch_or(std::uint64_t{1} << (index % 64), std::memory_order_relaxed);
  }
}

void forgetFd(int fd) noexcept {
  if (fd >= 0 && static_cast<std::size_t>(fd) < kMaxFds) {
    const auto index = static_cast<std::size_t>(fd);
    ownedFds[index / 64].fetch_and(~(std::uint64_t{1} << (index % 64)), std::memory_order_relaxed);
  }
}

}  // namespace unisono

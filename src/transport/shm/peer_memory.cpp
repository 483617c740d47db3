#include "transport/shm/peer_memory.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <sys/uio.h>

#include "base/env.hpp"
#include "base/log.hpp"
#include "base/str.hpp"

namespace unisono::shm {
namespace {

UNISONO_KNOB(bool, kCma, "UNISONO_CMA", "on",
             "read long messages and large blocks where they are, in the memory of the peer's "
             "process; off: copy them through shared memory");

/// 0, or the error.
int readProcess(int pid, std::uint64_t address, std::span<std::byte> into) noexcept {
  while (!into.empty()) {
    const iovec local{into.data(), into.size()};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of another process.
    const iovec remote{reinterpret_cast<void*>(address), into.size()};
    const ssize_t got = ::process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (got <= 0) {
      return got < 0 ? errno : EFAULT;
    }
    address += static_cast<std::uint64_t>(got);
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return 0;
}

}  // namespace

PeerMemory::PeerMemory(Segment& segment, std::string_view what)
    : segment_(segment),
      what_(what),
      access_(static_cast<std::size_t>(segment.size()),
              kCma.value() ? Access::UNTRIED : Access::DENIED) {}

bool PeerMemory::isReadable(int peer) noexcept {
  Access& access = access_[static_cast<std::size_t>(peer)];
  if (access == Access::UNTRIED && tryWord(peer)) {
    access = Access::GIVEN;
  }
  return access == Access::GIVEN;
}

/// False, but not for ever, when the peer has withdrawn its word.
bool PeerMemory::tryWord(int peer) noexcept {
  const RankBlock& block = segment_.block(peer);
  const std::uint64_t address = block.proof.address.load(std::memory_order_acquire);
  if (address == 0) {
    return false;
  }
  std::array<std::uint64_t, 2> found{};
  const int error =
      readProcess(block.identity.pid, address, std::as_writable_bytes(std::span(found)));
  if (error == 0 && found[0] == block.proof.value[0] && found[1] == block.proof.value[1]) {
    return true;
  }
  deny(peer, error);
  return false;
}

bool PeerMemory::read(int peer, std::uint64_t address, std::span<std::byte> into) noexcept {
  const RankBlock& block = segment_.block(peer);
  const int error = readProcess(block.identity.pid, address, into);
  if (error == EPERM || error == ENOSYS) {
    deny(peer, error);
  }
  // Its number may be that of another process by now.
  return error == 0 && !block.life.ownerDied() &&
         block.proof.address.load(std::memory_order_acquire) != 0;
}

void PeerMemory::deny(int peer, int error) noexcept {
  access_[static_cast<std::size_t>(peer)] = Access::DENIED;
  if (!noticed_) {
    noticed_ = true;
    UNISONO_LOG(INFO, "transport", "group '", segment_.group(), "': rank ", peer, " (process ",
                segment_.block(peer).identity.pid, ") cannot be read by process_vm_readv (",
                error == 0 ? "it is another process" : errnoText(error), "): ", what_,
                " copied through shared memory");
  }
}

}  // namespace unisono::shm

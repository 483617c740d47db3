// SharedMapping: a group's memory as one process has it, however many of the ranks it is.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "base/shared_memory.hpp"
#include "life/monitor.hpp"
#include "net/local_socket.hpp"
#include "transport/shm/layout.hpp"

namespace unisono::shm {

/// Several ranks in one process map the memory once: it saves room, and lets a race checker see
/// that they look at the same words.
class SharedMapping {
 public:
  SharedMapping(std::string cookie, std::string rootSocket, SharedMemory memory)
      : cookie_(std::move(cookie)),
        rootSocket_(std::move(rootSocket)),
        memory_(std::move(memory)) {}

  /// Maps what rank 0 answered to a request to join a group of `ranks` ranks. Throws DistError
  /// (PROTOCOL) unless it is the memory of that group; `subject` names it.
  static std::shared_ptr<SharedMapping> adopt(LocalMessage answer, std::size_t ranks,
                                              std::string cookie, std::string rootSocket,
                                              std::string_view subject);

  /// This process's mapping of the group with `cookie`, if it has one.
  static std::shared_ptr<SharedMapping> find(const std::string& cookie);
  /// Makes it known to find(). Returns the one that was there before, if another rank was faster.
  static std::shared_ptr<SharedMapping> share(std::shared_ptr<SharedMapping> mapping);

  const std::string& cookie() const noexcept { return cookie_; }
  const std::string& rootSocket() const noexcept { return rootSocket_; }
  SharedMemory& memory() noexcept { return memory_; }
  Header& header() noexcept { return *reinterpret_cast<Header*>(memory_.bytes().data()); }

  /// The extension `number`, if this process has it.
  std::optional<std::span<std::byte>> extension(std::uint32_t number) UNISONO_EXCLUDES(mutex_);
  /// Its descriptor and size, for handing it on; {-1, 0} when there is none yet.
  std::pair<int, std::size_t> extensionDescriptor(std::uint32_t number) UNISONO_EXCLUDES(mutex_);
  /// Makes extension `number`, unless there is one already. Throws as SharedMemory::create().
  std::span<std::byte> makeExtension(std::uint32_t number, std::size_t bytes)
      UNISONO_EXCLUDES(mutex_);
  /// Keeps `memory` as extension `number`, unless there is one already.
  std::span<std::byte> addExtension(std::uint32_t number, SharedMemory memory)
      UNISONO_EXCLUDES(mutex_);

 private:
  const std::string cookie_;
  const std::string rootSocket_;
  SharedMemory memory_;
  Mutex mutex_;
  std::map<std::uint32_t, SharedMemory> extensions_ UNISONO_GUARDED_BY(mutex_);
};

}  // namespace unisono::shm

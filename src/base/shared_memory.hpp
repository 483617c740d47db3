// SharedMemory: memory that several processes map, without a name that could be left behind.
//
// A sealed memfd: its pages are reserved when it is made, and it can neither shrink nor grow, so
// no process can make another one's access fail. The descriptor is handed to others; once all
// have it, it can be closed, and the memory lives as long as somebody maps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "unisono/base/error.hpp"

#include "base/fd.hpp"

namespace unisono {

class SharedMemory {
 public:
  /// What a forked child does with the mapping.
  enum class Fork : bool { LEFT_OUT, INHERITED };

  SharedMemory() = default;

  /// Less is left to this process than was asked for (RESOURCE).
  class NoRoom final : public DistError {
   public:
    using DistError::DistError;
  };

  /// How many bytes create() can still give: what is left to this process, less a reserve.
  static std::uint64_t room();
  /// The same of adopt(), for which the memory is there: only addresses may lack.
  static std::uint64_t roomToMap();

  /// Whether the system does not let this process have any, whatever it is for.
  static bool isDenied() noexcept;

  /// `bytes` zeroed bytes. Throws NoRoom when the system, the memory cgroup or a limit of this
  /// process has no room for them; `subject` names what it is for, as in "the rings of group 3".
  static SharedMemory create(std::size_t bytes, std::string_view subject,
                             Fork fork = Fork::LEFT_OUT);

  /// Maps what somebody else made. Throws DistError (PROTOCOL) unless it is sealed and exactly
  /// `bytes` long, and NoRoom.
  static SharedMemory adopt(UniqueFd fd, std::size_t bytes, std::string_view subject,
                            Fork fork = Fork::LEFT_OUT);

  ~SharedMemory() { unmap(); }
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;

  std::span<std::byte> bytes() const noexcept { return bytes_; }
  bool valid() const noexcept { return bytes_.data() != nullptr; }

  /// To be handed to another process; -1 after closeDescriptor().
  int descriptor() const noexcept { return fd_.get(); }

  /// A forked child of ours could keep it open after our death, and nobody needs it any more.
  void closeDescriptor() noexcept { fd_.reset(); }

 private:
  void map(std::size_t bytes, std::string_view subject, Fork fork);
  void unmap() noexcept;

  UniqueFd fd_;
  std::span<std::byte> bytes_;
  ForkGuard madeIn_;
  Fork fork_ = Fork::LEFT_OUT;
};

}  // namespace unisono

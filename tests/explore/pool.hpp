// Pool: the memory that counts as shared in an exploration.
#pragma once

#include <cstddef>
#include <span>

namespace unisono::explore {

class Pool {
 public:
  /// The next `bytes` bytes, zeroed. Never given back one by one.
  static std::span<std::byte> take(std::size_t bytes);
  /// How much was taken; giveBack() returns to an earlier state.
  static std::size_t taken() noexcept;
  static void giveBack(std::size_t taken) noexcept;

  static bool has(const volatile void* address) noexcept {
    return static_cast<std::size_t>(static_cast<const volatile std::byte*>(address) - base) <
           kBytes;
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{64} << 20U;
  static std::byte* base;
};

}  // namespace unisono::explore

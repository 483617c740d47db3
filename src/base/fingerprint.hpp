// A number that stands for a text: equal texts have equal ones, others nearly never.
#pragma once

#include <cstdint>
#include <string_view>

namespace unisono {

/// FNV-1a of 64 bits. No protection against somebody who looks for equal ones.
constexpr std::uint64_t fingerprint(std::string_view text) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }
  return hash;
}

}  // namespace unisono

// Which reductions are defined for which elements.
#pragma once

#include <array>
#include <cstdint>

#include "unisono/reduction/reduce_op.hpp"
#include "unisono/tensor/dtype.hpp"

namespace unisono::detail {

constexpr bool definedFor(RedOpType op, DType type) noexcept {
  switch (op) {
    case RedOpType::SUM:
    case RedOpType::PRODUCT:
      return true;
    case RedOpType::AVG:
      return type != DType::BOOL;
    case RedOpType::MIN:
    case RedOpType::MAX:
      return !isComplex(type);
    case RedOpType::BAND:
    case RedOpType::BOR:
    case RedOpType::BXOR:
      return isIntegral(type) || type == DType::BOOL;
    case RedOpType::PREMUL_SUM:
      return isFloatingPoint(type) && elementSize(type) > 1;
    case RedOpType::UNUSED:
      break;
  }
  return false;
}

/// A bit per DType for every RedOpType: one load instead of a switch on every call.
inline constexpr auto kReducible = [] {
  std::array<std::uint32_t, 10> rows{};
  for (std::uint8_t op = 0; op < rows.size(); ++op) {
    for (std::uint8_t type = 0; type < kDTypeCount; ++type) {
      if (definedFor(static_cast<RedOpType>(op), static_cast<DType>(type))) {
        rows[op] |= 1U << type;
      }
    }
  }
  return rows;
}();

constexpr bool isReducible(RedOpType op, DType type) noexcept {
  const auto row = static_cast<std::uint8_t>(op);
  return row < kReducible.size() && (kReducible[row] >> static_cast<std::uint8_t>(type) & 1U) != 0;
}

}  // namespace unisono::detail

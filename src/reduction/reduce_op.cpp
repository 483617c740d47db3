#include "unisono/reduction/reduce_op.hpp"

#include <array>

namespace unisono {

std::string_view name(RedOpType op) noexcept {
  static constexpr std::array<std::string_view, 10> kNames = {
      "SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM", "UNUSED"};
  return kNames.at(static_cast<std::uint8_t>(op));
}

}  // namespace unisono

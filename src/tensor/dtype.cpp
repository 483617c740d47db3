#include "unisono/tensor/dtype.hpp"

#include <array>

namespace unisono {

std::string_view name(DType type) noexcept {
  static constexpr std::array<std::string_view, kDTypeCount> kNames = {
      "float32", "float64", "float16", "bfloat16",  "float8_e4m3fn", "float8_e5m2",
      "int8",    "int16",   "int32",   "int64",     "uint8",         "uint16",
      "uint32",  "uint64",  "bool",    "complex64", "complex128"};
  return kNames.at(static_cast<std::uint8_t>(type));
}

}  // namespace unisono

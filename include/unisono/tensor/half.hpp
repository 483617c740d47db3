// Half, BFloat16, Float8E4M3, Float8E5M2: floating-point numbers of 16 and 8 bits, as stored.
//
// They hold bits and convert; arithmetic is done in float. A conversion from float rounds to the
// nearest value, ties to even, keeps subnormal numbers, and keeps NaN a NaN. What is too large
// becomes infinity, or, in E4M3, which has none, NaN; Float8 values follow PyTorch's
// float8_e4m3fn and float8_e5m2.
#pragma once

#include <cstdint>

#include "unisono/base/api.hpp"

namespace unisono {

/// IEEE binary16: 5 bits of exponent, 10 of fraction.
struct UNISONO_API Half {
  std::uint16_t bits = 0;

  Half() = default;
  explicit Half(float value) noexcept;
  explicit operator float() const noexcept;
  bool operator==(const Half&) const = default;  // of the bits
};

/// The upper half of a float: 8 bits of exponent, 7 of fraction.
struct UNISONO_API BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) noexcept;
  explicit operator float() const noexcept;
  bool operator==(const BFloat16&) const = default;  // of the bits
};

/// 4 bits of exponent, 3 of fraction; no infinity, one NaN per sign; largest value 448.
struct UNISONO_API Float8E4M3 {
  std::uint8_t bits = 0;

  Float8E4M3() = default;
  explicit Float8E4M3(float value) noexcept;
  explicit operator float() const noexcept;
  bool operator==(const Float8E4M3&) const = default;  // of the bits
};

/// 5 bits of exponent, 2 of fraction, with infinities; largest value 57344.
struct UNISONO_API Float8E5M2 {
  std::uint8_t bits = 0;

  Float8E5M2() = default;
  explicit Float8E5M2(float value) noexcept;
  explicit operator float() const noexcept;
  bool operator==(const Float8E5M2&) const = default;  // of the bits
};

}  // namespace unisono

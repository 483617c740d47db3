#include "unisono/tensor/half.hpp"

#include <bit>

namespace unisono {
namespace {

/// A small IEEE-like format: sign, `Exponent` bits, `Fraction` bits; bias as IEEE has it.
template <int Exponent, int Fraction, bool HasInfinity>
struct Format {
  static constexpr int kBias = (1 << (Exponent - 1)) - 1;
  static constexpr std::uint32_t kSign = 1U << (Exponent + Fraction);
  static constexpr std::uint32_t kMagnitude = kSign - 1;
  // With infinity: exponent of ones. Without: all ones is NaN, and the rest are numbers.
  static constexpr std::uint32_t kInfinity = ((1U << Exponent) - 1) << Fraction;
  static constexpr std::uint32_t kNan =
      HasInfinity ? kInfinity | (1U << (Fraction - 1)) : kMagnitude;
  static constexpr int kShift = 23 - Fraction;

  static std::uint32_t encode(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 31) != 0 ? kSign : 0;
    const std::uint32_t magnitude = bits & 0x7FFF'FFFFU;
    if (magnitude > 0x7F80'0000U) {
      return sign | kNan;
    }
    return sign | encodeMagnitude(magnitude);
  }

  static float decode(std::uint32_t bits) noexcept {
    const std::uint32_t sign = (bits & kSign) != 0 ? 0x8000'0000U : 0;
    const std::uint32_t magnitude = bits & kMagnitude;
    if (HasInfinity ? magnitude > kInfinity : magnitude == kMagnitude) {
      return std::bit_cast<float>(sign | 0x7FC0'0000U);
    }
    if (HasInfinity && magnitude == kInfinity) {
      return std::bit_cast<float>(sign | 0x7F80'0000U);
    }
    const std::uint32_t exponent = magnitude >> Fraction;
    if (exponent == 0) {  // subnormal: the fraction counts steps of the smallest value
      const float step =
          std::bit_cast<float>(static_cast<std::uint32_t>(127 - kBias + 1 - Fraction) << 23);
      const float size = static_cast<float>(magnitude) * step;
      return sign != 0 ? -size : size;
    }
    const std::uint32_t rebias = static_cast<std::uint32_t>(127 - kBias) << 23;
    return std::bit_cast<float>(sign | ((magnitude << kShift) + rebias));
  }

 private:
  static std::uint32_t encodeMagnitude(std::uint32_t magnitude) noexcept {
    const int exponent = static_cast<int>(magnitude >> 23) - 127 + kBias;
    if (exponent <= 0) {
      return encodeSubnormal(magnitude, exponent);
    }
    const std::uint32_t rebased = magnitude - (static_cast<std::uint32_t>(127 - kBias) << 23);
    const std::uint32_t rounded = roundOff(rebased, kShift);
    constexpr std::uint32_t kLargest = HasInfinity ? kInfinity - 1 : kMagnitude - 1;
    constexpr std::uint32_t kTooLarge = HasInfinity ? kInfinity : kMagnitude;
    return rounded > kLargest ? kTooLarge : rounded;
  }

  /// What is left of a number below the smallest normal one; rounding up may make it normal.
  static std::uint32_t encodeSubnormal(std::uint32_t magnitude, int exponent) noexcept {
    const int shift = kShift + 1 - exponent;
    if (shift > 25) {
      return 0;  // less than half of the smallest value
    }
    const std::uint32_t fraction = (magnitude & 0x007F'FFFFU) | 0x0080'0000U;
    return roundOff(fraction, shift);
  }

  /// `value` without its lowest `shift` bits, to the nearest, ties to even.
  static std::uint32_t roundOff(std::uint32_t value, int shift) noexcept {
    const std::uint32_t half = (1U << (shift - 1)) - 1;
    const std::uint32_t even = (value >> shift) & 1U;
    return (value + half + even) >> shift;
  }
};

using Binary16 = Format<5, 10, true>;
using E4M3 = Format<4, 3, false>;
using E5M2 = Format<5, 2, true>;

}  // namespace

Half::Half(float value) noexcept : bits(static_cast<std::uint16_t>(Binary16::encode(value))) {}
Half::operator float() const noexcept {
  return Binary16::decode(bits);
}

BFloat16::BFloat16(float value) noexcept {
  const auto full = std::bit_cast<std::uint32_t>(value);
  const bool nan = (full & 0x7FFF'FFFFU) > 0x7F80'0000U;
  // A NaN must not round to infinity: it keeps its upper bits and becomes a quiet one.
  const std::uint32_t rounded = nan ? full | 0x0040'0000U : full + 0x7FFFU + ((full >> 16) & 1U);
  bits = static_cast<std::uint16_t>(rounded >> 16);
}
BFloat16::operator float() const noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

Float8E4M3::Float8E4M3(float value) noexcept
    : bits(static_cast<std::uint8_t>(E4M3::encode(value))) {}
Float8E4M3::operator float() const noexcept {
  return E4M3::decode(bits);
}

Float8E5M2::Float8E5M2(float value) noexcept
    : bits(static_cast<std::uint8_t>(E5M2::encode(value))) {}
Float8E5M2::operator float() const noexcept {
  return E5M2::decode(bits);
}

}  // namespace unisono

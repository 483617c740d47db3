// Element: what the vectors of a comparison are made of, for programs that link nothing of unisono.
//
// Header only, as board.hpp. A value is a small number, which every kind of element can hold.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace unisono::bench {

enum class Element : std::uint32_t { FLOAT32, FLOAT64, FLOAT16, BFLOAT16, INT32, INT64 };

struct NamedElement {
  const char* name;
  Element element;
  std::size_t bytes;
};
inline constexpr NamedElement kElements[] = {
    {"float32", Element::FLOAT32, 4}, {"float64", Element::FLOAT64, 8},
    {"float16", Element::FLOAT16, 2}, {"bfloat16", Element::BFLOAT16, 2},
    {"int32", Element::INT32, 4},     {"int64", Element::INT64, 8},
};

constexpr std::size_t bytesOf(Element element) noexcept {
  return kElements[static_cast<std::size_t>(element)].bytes;
}
constexpr const char* nameOf(Element element) noexcept {
  return kElements[static_cast<std::size_t>(element)].name;
}
/// The element called `name`; null for another text.
constexpr const NamedElement* elementCalled(std::string_view name) noexcept {
  for (const NamedElement& each : kElements) {
    if (name == each.name) {
      return &each;
    }
  }
  return nullptr;
}

/// What a reduction makes of the elements of all ranks.
enum class Reduction : std::uint32_t { SUM, PROD, MIN, MAX, AVG };

struct NamedReduction {
  const char* name;
  Reduction reduction;
};
inline constexpr NamedReduction kReductions[] = {
    {"sum", Reduction::SUM}, {"prod", Reduction::PROD}, {"min", Reduction::MIN},
    {"max", Reduction::MAX}, {"avg", Reduction::AVG},
};
constexpr const char* nameOf(Reduction reduction) noexcept {
  return kReductions[static_cast<std::size_t>(reduction)].name;
}

/// Half precision numbers of so many mantissa bits, 0 or above 1/1000: what does not fit is cut
/// off.
inline std::uint16_t halfOf(double value, int mantissa) noexcept {
  if (value == 0) {
    return 0;
  }
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent) * 2 - 1;
  const int bias = (1 << (14 - mantissa)) - 1;
  return static_cast<std::uint16_t>(((exponent - 1 + bias) << mantissa) |
                                    static_cast<int>(fraction * (1 << mantissa)));
}
inline double fromHalf(std::uint16_t bits, int mantissa) noexcept {
  if (bits == 0) {
    return 0;
  }
  const int bias = (1 << (14 - mantissa)) - 1;
  const double fraction = static_cast<double>(bits & ((1 << mantissa) - 1)) / (1 << mantissa);
  return std::ldexp(1 + fraction, (bits >> mantissa) - bias);
}
inline constexpr int kMantissaOfHalf = 10;
inline constexpr int kMantissaOfBfloat = 7;

/// Writes `value` as an element to `to`.
inline void putElement(Element element, void* to, double value) noexcept {
  const auto put = [to](auto raw) { std::memcpy(to, &raw, sizeof raw); };
  switch (element) {
    case Element::FLOAT32:
      return put(static_cast<float>(value));
    case Element::FLOAT64:
      return put(value);
    case Element::FLOAT16:
      return put(halfOf(value, kMantissaOfHalf));
    case Element::BFLOAT16:
      return put(halfOf(value, kMantissaOfBfloat));
    case Element::INT32:
      return put(static_cast<std::int32_t>(value));
    case Element::INT64:
      return put(static_cast<std::int64_t>(value));
  }
}
inline double getElement(Element element, const void* from) noexcept {
  const auto get = [from](auto raw) {
    std::memcpy(&raw, from, sizeof raw);
    return raw;
  };
  switch (element) {
    case Element::FLOAT32:
      return static_cast<double>(get(float{}));
    case Element::FLOAT64:
      return get(double{});
    case Element::FLOAT16:
      return fromHalf(get(std::uint16_t{}), kMantissaOfHalf);
    case Element::BFLOAT16:
      return fromHalf(get(std::uint16_t{}), kMantissaOfBfloat);
    case Element::INT32:
      return get(std::int32_t{});
    case Element::INT64:
      return static_cast<double>(get(std::int64_t{}));
  }
  return 0;
}
/// Whether `got` is what `right` is as an element: halves may be rounded on the way to a sum.
inline bool isSame(Element element, double got, double right) noexcept {
  const bool isHalf = bytesOf(element) == 2;
  return isHalf ? std::abs(got - right) <= right / 50 : got == right;
}

}  // namespace unisono::bench

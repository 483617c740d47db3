// What kernels are compared with: one element at a time, in plain C++.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "unisono/reduction/reduce_op.hpp"
#include "unisono/tensor/dtype.hpp"

namespace unisono::reference {

template <typename T>
inline constexpr bool kIsSmall = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> ||
                                 std::is_same_v<T, Float8E4M3> || std::is_same_v<T, Float8E5M2>;

template <typename T>
T oneNan(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

template <typename T>
T combineReal(RedOpType op, T a, T b) {
  switch (op) {
    case RedOpType::PRODUCT:
      return a * b;
    case RedOpType::MIN:
      return std::isnan(a) || a <= b ? a : b;
    case RedOpType::MAX:
      return std::isnan(a) || a >= b ? a : b;
    default:
      return a + b;
  }
}

template <typename T>
T reduceReal(RedOpType op, std::span<const T> values, int ranks) {
  T result = values[0];
  for (const T value : values.subspan(1)) {
    result = combineReal(op, result, value);
  }
  return oneNan(op == RedOpType::AVG ? result / static_cast<T>(ranks) : result);
}

template <typename T>
T combineInteger(RedOpType op, T a, T b) {
  const auto wideA = static_cast<std::uint64_t>(a);
  const auto wideB = static_cast<std::uint64_t>(b);
  switch (op) {
    case RedOpType::PRODUCT:
      return static_cast<T>(wideA * wideB);
    case RedOpType::MIN:
      return a < b ? a : b;
    case RedOpType::MAX:
      return a > b ? a : b;
    case RedOpType::BAND:
      return static_cast<T>(wideA & wideB);
    case RedOpType::BOR:
      return static_cast<T>(wideA | wideB);
    case RedOpType::BXOR:
      return static_cast<T>(wideA ^ wideB);
    default:
      return static_cast<T>(wideA + wideB);
  }
}

template <typename T>
T reduceInteger(RedOpType op, std::span<const T> values, int ranks) {
  T result = values[0];
  for (const T value : values.subspan(1)) {
    result = combineInteger(op, result, value);
  }
  if (op == RedOpType::AVG) {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    result = static_cast<T>(static_cast<Wide>(result) / static_cast<Wide>(ranks));
  }
  return result;
}

inline std::uint8_t reduceTruth(RedOpType op, std::span<const std::uint8_t> values) {
  std::size_t ones = 0;
  for (const std::uint8_t value : values) {
    ones += value != 0 ? 1 : 0;
  }
  switch (op) {
    case RedOpType::SUM:
    case RedOpType::MAX:
    case RedOpType::BOR:
      return ones > 0 ? 1 : 0;
    case RedOpType::BXOR:
      return static_cast<std::uint8_t>(ones % 2);
    default:
      return ones == values.size() ? 1 : 0;
  }
}

template <typename T>
std::complex<T> reduceComplex(RedOpType op, std::span<const std::complex<T>> values, int ranks) {
  T real = values[0].real();
  T imaginary = values[0].imag();
  for (const std::complex<T>& value : values.subspan(1)) {
    if (op == RedOpType::PRODUCT) {
      const T first = real * value.real() - imaginary * value.imag();
      imaginary = real * value.imag() + imaginary * value.real();
      real = first;
    } else {
      real += value.real();
      imaginary += value.imag();
    }
  }
  const T divisor = op == RedOpType::AVG ? static_cast<T>(ranks) : T{1};
  return {oneNan(real / divisor), oneNan(imaginary / divisor)};
}

/// One element from the contributions to it.
template <typename T>
T reduceOne(RedOpType op, std::span<const T> values, int ranks) {
  if constexpr (kIsSmall<T>) {
    std::vector<float> wide;
    for (const T value : values) {
      wide.push_back(static_cast<float>(value));
    }
    return T(reduceReal<float>(op, wide, ranks));
  } else if constexpr (std::is_floating_point_v<T>) {
    return reduceReal<T>(op, values, ranks);
  } else if constexpr (std::is_integral_v<T>) {
    return reduceInteger<T>(op, values, ranks);
  } else {
    return reduceComplex(op, values, ranks);
  }
}

/// `elements` of them, from memory that need not be aligned.
inline std::vector<std::byte> reduce(DType type, RedOpType op, int ranks,
                                     std::span<const std::byte* const> sources,
                                     std::size_t elements) {
  std::vector<std::byte> result(elements * elementSize(type));
  const auto each = [&]<typename T>(auto one, std::type_identity<T>) {
    std::vector<T> values(sources.size());
    for (std::size_t i = 0; i < elements; ++i) {
      for (std::size_t s = 0; s < sources.size(); ++s) {
        std::memcpy(&values[s], sources[s] + i * sizeof(T), sizeof(T));
      }
      const T answer = one(std::span<const T>(values));
      std::memcpy(result.data() + i * sizeof(T), &answer, sizeof(T));
    }
  };
  visit(type, [&]<typename T>(std::type_identity<T> t) {
    if constexpr (std::is_same_v<T, bool>) {  // a byte that is neither 0 nor 1 is no bool
      each([&](std::span<const std::uint8_t> values) { return reduceTruth(op, values); },
           std::type_identity<std::uint8_t>{});
    } else {
      each([&](std::span<const T> values) { return reduceOne<T>(op, values, ranks); }, t);
    }
  });
  return result;
}

}  // namespace unisono::reference

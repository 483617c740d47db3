// DType: what the elements of a tensor are.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "unisono/base/api.hpp"
#include "unisono/tensor/half.hpp"

namespace unisono {

/// The types that tensors may have. The values are part of what ranks tell each other: new ones
/// are added at the end.
enum class DType : std::uint8_t {
  FLOAT32,
  FLOAT64,
  FLOAT16,
  BFLOAT16,
  FLOAT8_E4M3,
  FLOAT8_E5M2,
  INT8,
  INT16,
  INT32,
  INT64,
  UINT8,
  UINT16,
  UINT32,
  UINT64,
  BOOL,
  COMPLEX64,
  COMPLEX128,
};
inline constexpr int kDTypeCount = 17;

/// Bytes of one element.
constexpr std::size_t elementSize(DType type) noexcept {
  constexpr std::uint8_t kSizes[kDTypeCount] = {4, 8, 2, 2, 1, 1, 1, 2, 4, 8, 1, 2, 4, 8, 1, 8, 16};
  return kSizes[static_cast<std::uint8_t>(type)];
}

/// PyTorch's name without "torch.": "float32", "bfloat16", "float8_e4m3fn".
UNISONO_API std::string_view name(DType type) noexcept;

constexpr bool isComplex(DType type) noexcept {
  return type == DType::COMPLEX64 || type == DType::COMPLEX128;
}
constexpr bool isFloatingPoint(DType type) noexcept {
  return type <= DType::FLOAT8_E5M2;
}
/// Integers; BOOL is none.
constexpr bool isIntegral(DType type) noexcept {
  return type >= DType::INT8 && type <= DType::UINT64;
}

/// Calls `fn(std::type_identity<T>{})` with the C++ type of the elements.
template <typename Fn>
decltype(auto) visit(DType type, Fn&& fn) {
  switch (type) {
    case DType::FLOAT32:
      return fn(std::type_identity<float>{});
    case DType::FLOAT64:
      return fn(std::type_identity<double>{});
    case DType::FLOAT16:
      return fn(std::type_identity<Half>{});
    case DType::BFLOAT16:
      return fn(std::type_identity<BFloat16>{});
    case DType::FLOAT8_E4M3:
      return fn(std::type_identity<Float8E4M3>{});
    case DType::FLOAT8_E5M2:
      return fn(std::type_identity<Float8E5M2>{});
    case DType::INT8:
      return fn(std::type_identity<std::int8_t>{});
    case DType::INT16:
      return fn(std::type_identity<std::int16_t>{});
    case DType::INT32:
      return fn(std::type_identity<std::int32_t>{});
    case DType::INT64:
      return fn(std::type_identity<std::int64_t>{});
    case DType::UINT8:
      return fn(std::type_identity<std::uint8_t>{});
    case DType::UINT16:
      return fn(std::type_identity<std::uint16_t>{});
    case DType::UINT32:
      return fn(std::type_identity<std::uint32_t>{});
    case DType::UINT64:
      return fn(std::type_identity<std::uint64_t>{});
    case DType::BOOL:
      return fn(std::type_identity<bool>{});
    case DType::COMPLEX64:
      return fn(std::type_identity<std::complex<float>>{});
    case DType::COMPLEX128:
      break;
  }
  return fn(std::type_identity<std::complex<double>>{});
}

namespace detail {
template <typename T>
consteval DType dtypeOf() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>) {
    return DType::FLOAT32;
  } else if constexpr (std::is_same_v<U, double>) {
    return DType::FLOAT64;
  } else if constexpr (std::is_same_v<U, Half>) {
    return DType::FLOAT16;
  } else if constexpr (std::is_same_v<U, BFloat16>) {
    return DType::BFLOAT16;
  } else if constexpr (std::is_same_v<U, Float8E4M3>) {
    return DType::FLOAT8_E4M3;
  } else if constexpr (std::is_same_v<U, Float8E5M2>) {
    return DType::FLOAT8_E5M2;
  } else if constexpr (std::is_same_v<U, bool>) {
    return DType::BOOL;
  } else if constexpr (std::is_same_v<U, std::complex<float>>) {
    return DType::COMPLEX64;
  } else if constexpr (std::is_same_v<U, std::complex<double>>) {
    return DType::COMPLEX128;
  } else {
    static_assert(std::is_integral_v<U> && sizeof(U) <= 8, "no tensor has elements of this type");
    constexpr DType kSigned[] = {DType::INT8, DType::INT16, DType::INT32, DType::INT64};
    constexpr DType kUnsigned[] = {DType::UINT8, DType::UINT16, DType::UINT32, DType::UINT64};
    constexpr int kIndex = sizeof(U) == 1 ? 0 : sizeof(U) == 2 ? 1 : sizeof(U) == 4 ? 2 : 3;
    return std::is_signed_v<U> ? kSigned[kIndex] : kUnsigned[kIndex];
  }
}
}  // namespace detail

/// The DType of a C++ type: kDType<float> is FLOAT32.
template <typename T>
inline constexpr DType kDType = detail::dtypeOf<T>();

}  // namespace unisono

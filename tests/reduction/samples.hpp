// Elements to reduce: ordinary ones, and those with which things go wrong.
#pragma once

#include <bit>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "unisono/tensor/dtype.hpp"

#include "reduction/reference.hpp"

namespace unisono {

/// Infinities, zeros of both signs, subnormals, NaN of all kinds, the largest and smallest.
template <typename T>
std::vector<T> specialReals() {
  using Limits = std::numeric_limits<T>;
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const auto withPayload = static_cast<Bits>(std::bit_cast<Bits>(Limits::infinity()) + 1);
  return {Limits::infinity(),
          -Limits::infinity(),
          Limits::quiet_NaN(),
          -Limits::quiet_NaN(),
          T{0},
          -T{0},
          Limits::denorm_min(),
          -Limits::denorm_min(),
          Limits::min(),
          -Limits::min() / T{2},
          Limits::max(),
          Limits::lowest(),
          Limits::epsilon(),
          T{1},
          std::bit_cast<T>(withPayload)};
}

template <typename T>
T sample(std::mt19937_64& random) {
  const std::uint64_t chance = random();
  if constexpr (std::is_floating_point_v<T>) {
    static const std::vector<T> kSpecial = specialReals<T>();
    if (chance % 16 == 0) {
      return kSpecial[(chance / 16) % kSpecial.size()];
    }
    const T size = static_cast<T>(static_cast<std::int64_t>(random()) >> 40);
    return size / static_cast<T>(1U << (chance / 16 % 24));
  } else if constexpr (reference::kIsSmall<T>) {
    T value;  // one in eight of any bits, the rest not far from 1
    const auto any = static_cast<decltype(value.bits)>(chance >> 8);
    value.bits = any;
    return chance % 8 == 0 ? value : T(static_cast<float>(static_cast<int>(any % 61) - 30) / 8);
  } else if constexpr (std::is_integral_v<T>) {
    const auto small = static_cast<T>(chance >> 8 & 7U);
    const T extreme = chance % 3 == 0 ? std::numeric_limits<T>::min() : static_cast<T>(chance >> 9);
    return chance % 4 == 0 ? small : extreme;
  } else {
    using Part = typename T::value_type;
    const Part real = sample<Part>(random);
    return {real, sample<Part>(random)};
  }
}

/// `elements` of `type`, the same for the same `seed`.
inline std::vector<std::byte> samples(DType type, std::size_t elements, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(elements * elementSize(type));
  visit(type, [&]<typename T>(std::type_identity<T>) {
    using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
    for (std::size_t i = 0; i < elements; ++i) {
      const auto value = sample<Stored>(random);
      std::memcpy(bytes.data() + i * sizeof(Stored), &value, sizeof(Stored));
    }
  });
  return bytes;
}

}  // namespace unisono

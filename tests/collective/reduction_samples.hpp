// What ranks contribute to a reduction, and what comes of it: for the tests of all that reduces.
#pragma once

#include <array>
#include <cstring>
#include <type_traits>
#include <vector>

#include "unisono/base/error.hpp"

#include "reduction/reduction.hpp"

namespace unisono::test {

/// Numbers of elements of which none fills a vector register, a line or a page.
inline constexpr std::array<std::size_t, 9> kOddCounts = {1, 3, 15, 63, 127, 257, 1023, 4097, 9001};

/// Bytes of which no two ranks and no two elements have the same.
inline std::vector<std::byte> contribution(int rank, std::size_t elements, DType type) {
  std::vector<std::byte> bytes(elements * elementSize(type));
  visit(type, [&]<typename T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < elements; ++i) {
      const auto value = static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 13) % 61) -
                         (std::is_unsigned_v<T> ? 0.F : 30.F);
      const T element = [&] {
        if constexpr (std::is_constructible_v<T, float>) {
          return T(value);
        } else {
          return static_cast<T>(value);
        }
      }();
      std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
    }
  });
  return bytes;
}

inline std::vector<std::byte> expected(int ranks, std::size_t elements, DType type,
                                       const Reduction& reduction) {
  std::vector<std::vector<std::byte>> all;
  std::vector<const std::byte*> sources;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(contribution(rank, elements, type));
    sources.push_back(all.back().data());
  }
  std::vector<std::byte> result(elements * elementSize(type));
  reduction.reduce(result.data(), sources, elements);
  return result;
}

inline bool isDefined(DType type, ReduceOp op) {
  try {
    static_cast<void>(Reduction::of(type, op, 1));
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

/// All pairs of a type and an operation that make sense; PREMUL_SUM too, with a factor that all
/// types can tell from 1.
template <typename Body>
void forEveryReduction(Body body) {
  for (int type = 0; type < kDTypeCount; ++type) {
    for (int op = 0; op <= static_cast<int>(RedOpType::PREMUL_SUM); ++op) {
      const auto dtype = static_cast<DType>(type);
      const bool scales = static_cast<RedOpType>(op) == RedOpType::PREMUL_SUM;
      const ReduceOp reduceOp =
          scales ? ReduceOp::preMulSum(0.5) : ReduceOp(static_cast<RedOpType>(op));
      if (isDefined(dtype, reduceOp)) {
        body(dtype, reduceOp);
      }
    }
  }
}

}  // namespace unisono::test

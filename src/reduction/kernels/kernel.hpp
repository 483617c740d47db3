// What a kernel is to those who call it: one function for one type, operation and instruction set.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "unisono/tensor/dtype.hpp"

namespace unisono::kernels {

/// Stores to each of `into` what the operation makes of `sources`, in their order. Each of `into`
/// is exactly one of the sources, or overlaps none. `number` is what the operation asks for: the
/// number of ranks for AVG, the factor for SCALE; the others do not look at it.
using Kernel = void (*)(std::byte* const* into, std::size_t intoCount,
                        const std::byte* const* sources, std::size_t sourceCount,
                        std::size_t elements, double number);

enum class Op : std::uint8_t { SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, SCALE };
inline constexpr std::size_t kOpCount = 9;

/// The kernels of one type, by Op; null for what the type does not have.
using Row = std::array<Kernel, kOpCount>;

/// The rows for the instruction set of this processor. Each knows the types it is named after.
const Row& floatRow(DType type);    // FLOAT32, FLOAT64, COMPLEX64, COMPLEX128 (PRODUCT only)
const Row& smallRow(DType type);    // FLOAT16, BFLOAT16, FLOAT8_E4M3, FLOAT8_E5M2
const Row& integerRow(DType type);  // INT8 … UINT64, BOOL; the bitwise operations in UINT8 only

}  // namespace unisono::kernels

// Strided views in one row, and back.
#pragma once

#include <cstddef>

#include "unisono/tensor/tensor.hpp"

namespace unisono {

/// Writes the elements of `from`, in C order, one after the other to `to`, which has room for
/// from.bytes() and does not overlap it.
void pack(std::byte* to, const Tensor& from);

/// The way back: the elements of `to` become those of the row at `from`. Touches no byte that is
/// not part of an element. `to` does not overlap itself.
void unpack(const Tensor& to, const std::byte* from);

}  // namespace unisono

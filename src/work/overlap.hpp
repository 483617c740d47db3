// Overlap: which tensors share memory.
//
// Extents that cross say little: the columns of one matrix cross all over and are good outputs. So
// strided views are asked whether any element of one has a byte of an element of the other. For
// all that slicing and transposing make, the answer is exact and takes a few steps; views whose
// steps have nothing to do with each other could take for ever, and are said to share memory when
// they have not been told apart in kMostSteps.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "unisono/tensor/tensor.hpp"

namespace unisono::detail {

/// Whether they are views of the same elements in the same order.
bool sameView(const Tensor& a, const Tensor& b) noexcept;

/// Far more than views of one tensor take (some three for each dimension), yet well below 1 ms.
inline constexpr int kMostSteps = 10'000;

/// Whether an element of `a` and one of `b` have a byte in common.
bool shareMemory(const Tensor& a, const Tensor& b);

/// Two of `tensors` that share memory; with `twinsAllowed`, other than by being the same view.
std::optional<std::pair<std::size_t, std::size_t>> sharedMemory(std::span<const Tensor> tensors,
                                                                bool twinsAllowed);

/// An input and an output that share memory; the input `except` is not looked at.
std::optional<std::pair<std::size_t, std::size_t>> sharedMemory(std::span<const Tensor> inputs,
                                                                std::span<const Tensor> outputs,
                                                                std::size_t except);

}  // namespace unisono::detail

// Overlap: which tensors certainly share memory.
//
// Whether two strided views have an element in common is hard to tell in general, and columns of
// one matrix, whose extents cross, are good outputs. What is found here is certain: two views in
// C order whose bytes cross, or any two that begin at the same element.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "unisono/tensor/tensor.hpp"

namespace unisono::detail {

/// Whether they are views of the same elements in the same order.
bool sameView(const Tensor& a, const Tensor& b) noexcept;

bool shareMemory(const Tensor& a, const Tensor& b) noexcept;

/// Two of `tensors` that share memory; with `twinsAllowed`, other than by being the same view.
std::optional<std::pair<std::size_t, std::size_t>> sharedMemory(std::span<const Tensor> tensors,
                                                                bool twinsAllowed);

/// An input and an output that share memory; the input `except` is not looked at.
std::optional<std::pair<std::size_t, std::size_t>> sharedMemory(std::span<const Tensor> inputs,
                                                                std::span<const Tensor> outputs,
                                                                std::size_t except);

}  // namespace unisono::detail

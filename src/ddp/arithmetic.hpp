// Arithmetic of hooks with rows of real numbers, of any type of them.
#pragma once

#include <string_view>

#include "unisono/ddp/comm_hook.hpp"
#include "unisono/tensor/tensor.hpp"

namespace unisono::ddp {

/// Throws UsageError, on behalf of `hook`, unless the gradients of `bucket` are real numbers.
void requireRealNumbers(const GradBucket& bucket, std::string_view hook);

/// The elements of `from`, divided by `divisor`, become those of `to`, which has as many. Both lie
/// one after the other; they are of real numbers, each of its type.
void convert(const Tensor& to, const Tensor& from, int divisor = 1);

/// `row` itself, if it is of float32; else one like it that is.
Tensor asFloats(const Tensor& row);

/// to[i] += from[i]: of two rows of the same type of real numbers.
void add(const Tensor& to, const Tensor& from);
/// to[i] -= from[i], but 0 where the difference is no finite number.
void keepDifference(const Tensor& to, const Tensor& from);

}  // namespace unisono::ddp

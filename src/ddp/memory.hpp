// Memory that this room makes, and copies between views.
#pragma once

#include <cstdint>

#include "unisono/group/group.hpp"
#include "unisono/tensor/tensor.hpp"

namespace unisono::ddp {

/// A row of `count` zeros in ordinary memory, which goes with the last copy of the tensor. Throws
/// DistError (RESOURCE) when there is not enough.
Tensor ordinaryMemory(std::int64_t count, DType type);

/// The same in memory that the other ranks reach where it is, if the backend has such; in ordinary
/// memory, which is only slower, if that is used up.
Tensor registeredMemory(const Group& group, std::int64_t count, DType type);

/// The elements of `from` become those of `to`; both have the same type and sizes, and share no
/// memory.
void copyElements(const Tensor& to, const Tensor& from);

/// All bytes of a view become 0.
void clearElements(const Tensor& view);

/// Whether both are the same elements in the same places.
bool isSameView(const Tensor& a, const Tensor& b) noexcept;

/// Whether the elements fill a row of memory without gaps, from the first on, in whatever order.
bool isDense(const Tensor& tensor);

/// The elements from `offset` on of `row`, as a view that is laid out like `like`, where that is
/// dense, and else in C order.
Tensor viewLike(const Tensor& like, const Tensor& row, std::int64_t offset);

}  // namespace unisono::ddp

// KeptRows: memory of a hook, a row for each bucket, that it uses in every step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "unisono/group/group.hpp"
#include "unisono/tensor/tensor.hpp"

#include "ddp/memory.hpp"

namespace unisono::ddp {

/// They are kept because memory that others reach is not made in a moment.
class KeptRows {
 public:
  /// In memory that the ranks of `group` reach, if there is one.
  explicit KeptRows(std::optional<Group> group = std::nullopt) : group_(std::move(group)) {}

  /// The row of `bucket`; what is in it is from the last step, or 0 if it had another size or type.
  const Tensor& get(std::size_t bucket, std::int64_t count, DType type) {
    Tensor& row = rows_[bucket];
    if (!row.defined() || row.numel() != count || row.dtype() != type) {
      row = group_ ? registeredMemory(*group_, count, type) : ordinaryMemory(count, type);
    }
    return row;
  }

 private:
  std::optional<Group> group_;
  std::map<std::size_t, Tensor> rows_;
};

}  // namespace unisono::ddp

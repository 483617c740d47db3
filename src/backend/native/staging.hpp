// Staging: tensors as plain bytes, whatever their strides.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "unisono/tensor/tensor.hpp"

#include "collective/blocks.hpp"

namespace unisono {

/// Memory for one operation at a time, kept for the next.
class Scratch {
 public:
  /// `bytes` bytes, not initialised; valid until reset().
  std::byte* take(std::size_t bytes);
  /// What was taken may be taken again.
  void reset() noexcept { used_ = 0; }

 private:
  struct Piece {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
  };
  std::vector<Piece> pieces_;
  std::size_t used_ = 0;  // pieces
};

/// The elements of `tensor` one after the other: where they are, or packed into `scratch`.
ConstBlock readable(const Tensor& tensor, Scratch& scratch);

/// A place for the elements of a tensor: the tensor itself, or scratch that is unpacked later.
class OutputBlock {
 public:
  OutputBlock(const Tensor& tensor, Scratch& scratch);
  Block block() const noexcept { return block_; }
  /// Brings the elements to the tensor, when they are not there already.
  void deliver() const;

 private:
  const Tensor* tensor_;
  Block block_;
  bool staged_;
};

}  // namespace unisono

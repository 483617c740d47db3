#include "backend/native/staging.hpp"

#include "tensor/strided.hpp"

namespace unisono {

std::byte* Scratch::take(std::size_t bytes) {
  if (used_ == pieces_.size()) {
    pieces_.emplace_back();
  }
  Piece& piece = pieces_[used_++];
  if (piece.size < bytes) {
    piece.bytes.reset(new std::byte[bytes]);
    piece.size = bytes;
  }
  return piece.bytes.get();
}

ConstBlock readable(const Tensor& tensor, Scratch& scratch) {
  if (tensor.isContiguous()) {
    return {tensor.dataAs<const std::byte>(), tensor.bytes()};
  }
  std::byte* packed = scratch.take(tensor.bytes());
  pack(packed, tensor);
  return {packed, tensor.bytes()};
}

OutputBlock::OutputBlock(const Tensor& tensor, Scratch& scratch)
    : tensor_(&tensor), staged_(!tensor.isContiguous()) {
  block_ = {staged_ ? scratch.take(tensor.bytes()) : tensor.dataAs<std::byte>(), tensor.bytes()};
}

void OutputBlock::deliver() const {
  if (staged_) {
    unpack(*tensor_, block_.data());
  }
}

}  // namespace unisono

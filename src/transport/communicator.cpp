#include "transport/communicator.hpp"

namespace unisono {

std::span<std::byte> Communicator::scratch(std::size_t bytes) {
  if (used_ == pieces_.size()) {
    pieces_.emplace_back();
  }
  Piece& piece = pieces_[used_++];
  if (piece.size < bytes) {
    piece.bytes = std::make_unique_for_overwrite<std::byte[]>(bytes);
    piece.size = bytes;
  }
  return {piece.bytes.get(), bytes};
}

}  // namespace unisono

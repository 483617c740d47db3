// Operands: the tensors of an operation as the blocks that ranks exchange, whatever they exchange
// them by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "unisono/work/collective_args.hpp"

#include "backend/native/staging.hpp"
#include "collective/block.hpp"
#include "transport/communicator.hpp"

namespace unisono {

/// A signature as ranks compare it.
inline std::uint32_t folded(std::uint64_t signature) noexcept {
  return static_cast<std::uint32_t>(signature ^ (signature >> 32U));
}

/// What a rank calls, for messages: "all_reduce(float32[1000], SUM)". Another process may have
/// written anything there.
std::string describeCall(const Call& call);

/// Cuts `whole` into equal blocks, one for each of `blocks`.
template <typename BlockType>
void cut(BlockType whole, std::span<BlockType> blocks) {
  const std::size_t size = whole.size() / blocks.size();
  std::size_t begin = 0;
  for (BlockType& block : blocks) {
    block = whole.subspan(begin, size);
    begin += size;
  }
}

/// Cuts a tensor along its first dimension into blocks of `splits` rows each, or equal ones.
template <typename BlockType>
void cutRows(BlockType whole, const Tensor& tensor, std::span<const std::int64_t> splits,
             std::span<BlockType> blocks) {
  if (splits.empty()) {
    cut(whole, blocks);
    return;
  }
  const std::int64_t rows = tensor.sizes().empty() ? 0 : tensor.sizes()[0];
  const std::size_t row = rows == 0 ? 0 : whole.size() / static_cast<std::size_t>(rows);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::size_t size = static_cast<std::size_t>(splits[i]) * row;
    blocks[i] = whole.subspan(begin, size);
    begin += size;
  }
}

/// The same, in a vector of their own.
template <typename BlockType>
std::vector<BlockType> rowsOf(BlockType whole, const Tensor& tensor,
                              std::span<const std::int64_t> splits, std::size_t ranks) {
  std::vector<BlockType> blocks(ranks);
  cutRows(whole, tensor, splits, std::span(blocks));
  return blocks;
}

/// What this rank contributes with `tensor`: scaled for PREMUL_SUM, else as it is.
ConstBlock contribution(const CollectiveArgs& args, const Tensor& tensor, Scratch& scratch);

/// What this rank contributes to an all_reduce of several tensors. Coalesced they are one long
/// vector; otherwise they are reduced with each other first, and all get the result.
Block packReduced(const CollectiveArgs& args, Scratch& scratch);
void unpackReduced(const CollectiveArgs& args, const std::byte* whole);

/// What this rank gives to an all_gather of several tensors, as one block; and where the blocks of
/// all ranks, one after the other, go: that of rank p to the outputs that are p's, in each of the
/// lists.
Block packInputs(const CollectiveArgs& args, Scratch& scratch);
void unpackGathered(const CollectiveArgs& args, std::size_t ranks, const std::byte* all);

}  // namespace unisono

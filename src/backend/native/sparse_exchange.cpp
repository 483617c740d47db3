// First a head of fixed size, so that everybody knows how much comes from whom, and whether it fits
// together; then the indices, then the values. What is wrong is seen by all ranks in the heads: all
// throw the same, and the group stays usable.
#include "backend/native/sparse_exchange.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "backend/native/sparse_sum.hpp"
#include "base/str.hpp"

namespace unisono {
namespace {

/// What ranks tell each other first.
struct Head {
  std::int64_t sparseDims = 0;
  std::int64_t denseDims = 0;
  std::array<std::int64_t, SparseTensor::kMostSparseDims + SparseTensor::kMostDenseDims> sizes{};
  std::int64_t entries = 0;
  WrongIndex wrong = {};

  bool hasShapeOf(const Head& other) const noexcept {
    return sparseDims == other.sparseDims && denseDims == other.denseDims && sizes == other.sizes;
  }
  /// "(10, 3) with 1 sparse".
  std::string shapeText() const {
    std::string text;
    for (std::int64_t i = 0; i < sparseDims + denseDims; ++i) {
      text += str(i == 0 ? "" : ", ", sizes[static_cast<std::size_t>(i)]);
    }
    return str("(", text, ") with ", sparseDims, " sparse");
  }
};

Head headOf(const CollectiveArgs& args, const SparsePart& mine) {
  Head head;
  head.sparseDims = args.inputs[0].sizes()[0];
  head.denseDims = static_cast<std::int64_t>(args.inputSplits.size()) - head.sparseDims;
  std::copy(args.inputSplits.begin(), args.inputSplits.end(), head.sizes.begin());
  head.entries = static_cast<std::int64_t>(mine.entries);
  head.wrong = findWrongIndex(
      mine, std::span(args.inputSplits).first(static_cast<std::size_t>(head.sparseDims)));
  return head;
}

/// Why what the ranks have cannot be added, the same on all ranks; nothing when it can.
std::optional<AbortCause> findFault(std::span<const Head> heads) {
  for (std::size_t rank = 0; rank < heads.size(); ++rank) {
    const Head& head = heads[rank];
    const int culprit = static_cast<int>(rank);
    if (!head.hasShapeOf(heads[0])) {
      return AbortCause{
          .reason = Reason::MISMATCH,
          .culprits = {culprit},
          .text = str("Sparse dimensions do not match: rank 0 has ", heads[0].shapeText(),
                      ", rank ", rank, " has ", head.shapeText())};
    }
    if (head.wrong.dimension >= 0) {
      const auto dimension = static_cast<std::size_t>(head.wrong.dimension);
      return AbortCause{
          .reason = Reason::USAGE,
          .culprits = {culprit},
          .text = str("all_reduce_sparse refused: rank ", rank, " has the index ", head.wrong.index,
                      " in dimension ", dimension, ", whose size is ", head.sizes[dimension])};
    }
  }
  return std::nullopt;
}

}  // namespace

void sumSparseOfAll(CollectiveArgs& args, std::size_t ranks, Scratch& scratch,
                    const SparseMoves& moves) {
  const ConstBlock indices = readable(args.inputs[0], scratch);
  const ConstBlock values = readable(args.inputs[1], scratch);
  const auto entries = static_cast<std::size_t>(args.inputs[1].sizes()[0]);
  const Head head = headOf(args, {indices.data(), values.data(), entries});
  // Sizes are compared by the heads, which say more than a hash.
  CollectiveArgs what;
  what.type = args.type;
  what.reduceOp = args.reduceOp;
  what.inputs = args.inputs[1];

  std::vector<Head> heads(ranks);
  std::vector<std::size_t> sizes(ranks, sizeof(Head));
  moves.gather(what, std::as_bytes(std::span(&head, 1)),
               std::as_writable_bytes(std::span(heads)).data(), sizes);
  if (const std::optional<AbortCause> fault = findFault(heads)) {
    moves.refuse(*fault);
  }

  const auto gather = [&](ConstBlock mine, std::size_t bytesPerEntry) {
    std::size_t bytes = 0;
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      sizes[peer] = static_cast<std::size_t>(heads[peer].entries) * bytesPerEntry;
      bytes += sizes[peer];
    }
    std::byte* all = scratch.take(bytes);
    moves.gather(what, mine, all, sizes);
    return all;
  };
  const auto sparseDims = static_cast<std::size_t>(head.sparseDims);
  const Dims whole{std::span<const std::int64_t>(args.inputSplits)};
  std::size_t rowBytes = elementSize(args.inputs[1].dtype());
  for (const std::int64_t size : whole.span().subspan(sparseDims)) {
    rowBytes *= static_cast<std::size_t>(size);
  }
  const std::byte* allIndices = gather(indices, sparseDims * sizeof(std::int64_t));
  const std::byte* allValues = gather(values, rowBytes);

  std::vector<SparsePart> parts;
  for (const Head& each : heads) {
    const auto count = static_cast<std::size_t>(each.entries);
    parts.push_back({allIndices, allValues, count});
    allIndices += count * sparseDims * sizeof(std::int64_t);
    allValues += count * rowBytes;
  }
  SparseTensor sum = sumSparse(parts, args.inputs[1].dtype(), whole, sparseDims);
  args.outputs = TensorList{std::move(sum.indices), std::move(sum.values)};
}

}  // namespace unisono

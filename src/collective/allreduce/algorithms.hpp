// The ways to do an all-reduce between the ranks of one host.
//
// Each reduces every element in the order of the ranks, so the bits of the result do not depend on
// which one is taken. `in` and `out` are the same, or do not overlap. All ranks take the same one.
#pragma once

#include <cstddef>

#include "reduction/reduction.hpp"
#include "transport/shm/arena.hpp"

namespace unisono {

/// Contributions of `elements` elements. With a `taker` it is a reduce: only that rank gets the
/// result, and `out` of the others is not touched.
struct AllreduceData {
  const std::byte* in;
  std::byte* out;
  std::size_t elements;
  int taker = kAll;

  static constexpr int kAll = -1;
  bool isTaker(int rank) const noexcept { return taker == kAll || taker == rank; }
};

/// One flight of one line: data and flag in the same line; everybody reads everybody. For what
/// fits into a few lines. Each rank writes its contribution once and reads those of the others.
void allreduceLl(shm::Arena& arena, const AllreduceData& data, const Reduction& reduction);
/// The most bytes it can do.
std::size_t mostOfLl(std::size_t elementSize) noexcept;

/// Everybody copies into its slot; the last to come reduces them all, and everybody copies the
/// result. For many ranks on few cores: each needs a core only once. At most shm::kSmallSlot bytes.
void allreduceLast(shm::Arena& arena, const AllreduceData& data, const Reduction& reduction);

/// Everybody copies into its slot and reads all the others', in rounds. Best for two ranks.
void allreduceFlat(shm::Arena& arena, const AllreduceData& data, const Reduction& reduction);

/// Everybody copies in, reduces one share for all, and collects the shares of the others, in
/// rounds that overlap. Best for three ranks and more: each byte is reduced once.
void allreduceSlices(shm::Arena& arena, const AllreduceData& data, const Reduction& reduction);

/// Everybody reduces one share of all vectors where they lie, for all: nothing is copied. For an
/// all-reduce in place of a vector that was announced with its place. False when those of others
/// were not: then nothing has happened, and another one is to be taken.
bool allreduceDirect(shm::Arena& arena, const AllreduceData& data, const Reduction& reduction);

}  // namespace unisono

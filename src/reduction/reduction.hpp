// Reduction: what makes one of the contributions of several ranks.
//
//   const Reduction sum = Reduction::of(DType::FLOAT32, ReduceOp::SUM, 4);
//   sum.reduce(result, sources, 1000);   // result[i] = sources[0][i] + sources[1][i] + …
//
// An element is reduced in the order of the sources, never in another, and rounded once: halves,
// bfloat16 and float8 in float, the rest in their own type. So the result does not depend on how a
// tensor is cut into pieces, on where the pieces lie, or on the instruction set: its bits are the
// same everywhere. To the same end
//
// - every NaN that comes out is the positive quiet one without payload, whatever went in;
// - MIN and MAX of anything and NaN are NaN; of two zeros of different sign the earlier source
// wins;
// - integers wrap around; AVG divides the wrapped sum towards zero;
// - truth values are true when their byte is not 0, and come out as 0 or 1: SUM, MAX and BOR are
//   "or", PRODUCT, MIN and BAND are "and", BXOR is "xor";
// - complex numbers have SUM and AVG by part, and PRODUCT by the book: (ac - bd) + (ad + bc)i.
//
// Memory needs no alignment. Nothing outside of the named elements is read or written.
//
// Thread safety: a Reduction is a value and has no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "unisono/reduction/reduce_op.hpp"
#include "unisono/tensor/dtype.hpp"

#include "reduction/kernels/kernel.hpp"

namespace unisono {

class Reduction {
 public:
  /// For contributions of `ranks` ranks, by which AVG divides. PREMUL_SUM is SUM here: what is
  /// contributed was scaled before, see scale(). Throws UsageError, with c10d's words, when
  /// elements of `type` cannot be reduced by `op`.
  static Reduction of(DType type, ReduceOp op, int ranks);

  std::size_t elementSize() const noexcept { return elementSize_; }

  /// into[i] = op over sources[0][i], sources[1][i], … There is at least one source. `into` is
  /// exactly one of them, or overlaps none.
  void reduce(std::byte* into, std::span<const std::byte* const> sources,
              std::size_t elements) const {
    reduceToAll({&into, 1}, sources, elements);
  }

  /// The same result to every one of `into`, of which the same holds.
  void reduceToAll(std::span<std::byte* const> into, std::span<const std::byte* const> sources,
                   std::size_t elements) const {
    kernel_(into.data(), into.size(), sources.data(), sources.size(), elements * units_, ranks_);
  }

 private:
  Reduction(kernels::Kernel kernel, int ranks, std::size_t elementSize, std::size_t units) noexcept
      : kernel_(kernel),
        ranks_(ranks),
        elementSize_(static_cast<std::uint8_t>(elementSize)),
        units_(static_cast<std::uint8_t>(units)) {}

  kernels::Kernel kernel_;
  std::int32_t ranks_;
  std::uint8_t elementSize_;
  std::uint8_t units_;  // what the kernel counts as elements, per element: the parts of a complex
};

/// into[i] = from[i] * factor: what a rank contributes to a PREMUL_SUM. As in PyTorch, where a
/// tensor is multiplied by a number: factor and product are floats (doubles for FLOAT64), then
/// rounded to the type. `into` is `from` or does not overlap it. Throws UsageError for types that
/// PREMUL_SUM does not have.
void scale(DType type, std::byte* into, const std::byte* from, std::size_t elements, double factor);

}  // namespace unisono

// Stepwise: a reduction whose contributions come one after the other, already reduced in part.
//
// Steps add up, multiply, …; whoever has reduced an element completely finishes it, once: AVG
// divides then. In every step half types are rounded.
#pragma once

#include "collective/block.hpp"
#include "reduction/reduction.hpp"

namespace unisono {

class Stepwise {
 public:
  /// Throws as Reduction::of().
  static Stepwise of(DType type, ReduceOp op, int ranks) {
    const Reduction whole = Reduction::of(type, op, ranks);
    // A single contribution makes no step: finishing it is what cleans NaN and truth values.
    return {whole, op == ReduceOp::AVG ? Reduction::of(type, ReduceOp::SUM, ranks) : whole,
            op == ReduceOp::AVG || ranks == 1};
  }

  /// All contributions at once.
  const Reduction& whole() const noexcept { return whole_; }
  /// Two parts of them.
  const Reduction& step() const noexcept { return step_; }
  std::size_t elementSize() const noexcept { return whole_.elementSize(); }

  /// For elements that are reduced completely.
  void finish(Block block) const {
    if (finishes_ && !block.empty()) {
      const std::byte* const only = block.data();
      whole_.reduce(block.data(), {&only, 1}, block.size() / elementSize());
    }
  }

 private:
  Stepwise(const Reduction& whole, const Reduction& step, bool finishes) noexcept
      : whole_(whole), step_(step), finishes_(finishes) {}

  Reduction whole_;
  Reduction step_;
  bool finishes_;
};

}  // namespace unisono

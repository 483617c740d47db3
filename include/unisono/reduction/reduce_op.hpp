// ReduceOp: how the contributions of several ranks become one.
#pragma once

#include <cstdint>
#include <string_view>

#include "unisono/base/api.hpp"

namespace unisono {

/// The operations and their numbers, as in c10d.
enum class RedOpType : std::uint8_t {
  SUM = 0,
  AVG = 1,  // the sum divided by the number of ranks, once
  PRODUCT = 2,
  MIN = 3,
  MAX = 4,
  BAND = 5,
  BOR = 6,
  BXOR = 7,
  PREMUL_SUM = 8,  // each contribution times a factor, then the sum
  UNUSED = 9,
};

/// The enumerator's name: "SUM".
UNISONO_API std::string_view name(RedOpType op) noexcept;

/// An operation, and for PREMUL_SUM the factor.
class ReduceOp {
 public:
  using enum RedOpType;

  constexpr ReduceOp() = default;
  /// Every operation but PREMUL_SUM, which needs a factor.
  constexpr ReduceOp(RedOpType op) noexcept : op_(op) {}  // NOLINT: meant to convert

  static constexpr ReduceOp preMulSum(double factor) noexcept {
    ReduceOp op(RedOpType::PREMUL_SUM);
    op.factor_ = factor;
    return op;
  }

  constexpr RedOpType type() const noexcept { return op_; }
  /// 1 for operations without one.
  constexpr double factor() const noexcept { return factor_; }

  /// Compares the operation only, as c10d does.
  constexpr bool operator==(const ReduceOp& other) const noexcept { return op_ == other.op_; }
  constexpr bool operator==(RedOpType other) const noexcept { return op_ == other; }

 private:
  RedOpType op_ = RedOpType::SUM;
  double factor_ = 1.0;
};

}  // namespace unisono

#include "reduction/reduction.hpp"

#include "base/check.hpp"
#include "base/str.hpp"

namespace unisono {
namespace {

using kernels::Op;

bool isBitwise(RedOpType op) {
  return op == RedOpType::BAND || op == RedOpType::BOR || op == RedOpType::BXOR;
}

bool canBeScaled(DType type) {
  return isFloatingPoint(type) && elementSize(type) > 1;
}

const kernels::Row& rowOf(DType type) {
  if (type <= DType::FLOAT64 || isComplex(type)) {
    return kernels::floatRow(type);
  }
  return isFloatingPoint(type) ? kernels::smallRow(type) : kernels::integerRow(type);
}

kernels::Kernel kernelOf(DType type, Op op) {
  return rowOf(type)[static_cast<std::size_t>(op)];
}

void checkMakesSense(DType type, RedOpType op) {
  UNISONO_CHECK(op < RedOpType::UNUSED, "Cannot use ReduceOp.", name(RedOpType::UNUSED));
  UNISONO_CHECK(op != RedOpType::AVG || type != DType::BOOL,
                "Cannot use ReduceOp.AVG with boolean inputs");
  UNISONO_CHECK(!isBitwise(op) || isIntegral(type) || type == DType::BOOL, "Cannot use ReduceOp.",
                name(op), " with non-integral dtype");
  UNISONO_CHECK(op != RedOpType::PREMUL_SUM || canBeScaled(type),
                "PreMulSum Data type must be half, float, bfloat16 or double");
  UNISONO_CHECK(!isComplex(type) || (op != RedOpType::MIN && op != RedOpType::MAX),
                "reduce does not support ReduceOp.", name(op), " on complex tensors");
}

}  // namespace

Reduction Reduction::of(DType type, ReduceOp op, int ranks) {
  checkMakesSense(type, op.type());
  UNISONO_CHECK(ranks > 0, "cannot reduce over ", ranks, " ranks");
  const std::size_t bytes = unisono::elementSize(type);
  const auto kernel = op == ReduceOp::PREMUL_SUM ? Op::SUM : static_cast<Op>(op.type());
  if (isIntegral(type) && isBitwise(op.type())) {  // bits do not care whose they are
    return {kernelOf(DType::UINT8, kernel), ranks, bytes, bytes};
  }
  if (isComplex(type) && kernel != Op::PRODUCT) {
    const DType part = type == DType::COMPLEX64 ? DType::FLOAT32 : DType::FLOAT64;
    return {kernelOf(part, kernel), ranks, bytes, 2};
  }
  return {kernelOf(type, kernel), ranks, bytes, 1};
}

void scale(DType type, std::byte* into, const std::byte* from, std::size_t elements,
           double factor) {
  checkMakesSense(type, RedOpType::PREMUL_SUM);
  kernelOf(type, Op::SCALE)(&into, 1, &from, 1, elements, factor);
}

}  // namespace unisono

#include "ddp/arithmetic.hpp"

#include <cmath>
#include <type_traits>

#include "base/check.hpp"
#include "ddp/memory.hpp"

namespace unisono::ddp {
namespace {

/// What sums of elements are computed in.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename Fn>
void visitReal(DType type, const Fn& fn) {
  visit(type, [&]<typename T>(std::type_identity<T> of) {
    if constexpr (isFloatingPoint(kDType<T>)) {
      fn(of);
    } else {
      UNISONO_DCHECK(false);  // requireRealNumbers()
    }
  });
}

template <typename To, typename From>
To narrowed(From value) {
  if constexpr (std::is_same_v<To, double>) {
    return static_cast<double>(value);
  } else {
    return static_cast<To>(static_cast<float>(value));
  }
}

/// to[i] = fn(to[i], from[i]).
template <typename Fn>
void combine(const Tensor& to, const Tensor& from, const Fn& fn) {
  visitReal(to.dtype(), [&]<typename T>(std::type_identity<T>) {
    auto* target = to.dataAs<T>();
    const auto* source = from.dataAs<const T>();
    for (std::int64_t i = 0; i < to.numel(); ++i) {
      target[i] = narrowed<T>(fn(static_cast<Wide<T>>(target[i]), static_cast<Wide<T>>(source[i])));
    }
  });
}

}  // namespace

void requireRealNumbers(const GradBucket& bucket, std::string_view hook) {
  const DType type = bucket.buffer().dtype();
  UNISONO_CHECK(isFloatingPoint(type), hook, " is for real numbers, and cannot reduce bucket ",
                bucket.index(), ", which is of ", name(type));
}

void convert(const Tensor& to, const Tensor& from, int divisor) {
  visitReal(from.dtype(), [&]<typename From>(std::type_identity<From>) {
    visitReal(to.dtype(), [&]<typename To>(std::type_identity<To>) {
      const auto* source = from.dataAs<const From>();
      auto* target = to.dataAs<To>();
      const auto by = static_cast<Wide<From>>(divisor);
      for (std::int64_t i = 0; i < from.numel(); ++i) {
        target[i] = narrowed<To>(static_cast<Wide<From>>(source[i]) / by);
      }
    });
  });
}

Tensor asFloats(const Tensor& row) {
  if (row.dtype() == DType::FLOAT32) {
    return row;
  }
  const Tensor floats = ordinaryMemory(row.numel(), DType::FLOAT32);
  convert(floats, row);
  return floats;
}

void add(const Tensor& to, const Tensor& from) {
  combine(to, from, [](auto a, auto b) { return a + b; });
}

void keepDifference(const Tensor& to, const Tensor& from) {
  combine(to, from, [](auto a, auto b) { return std::isfinite(a - b) ? a - b : 0; });
}

}  // namespace unisono::ddp

// Kernels of float and double, and the product of complex numbers.
#include "reduction/kernels/kernel.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduction/kernels/float.cpp"  // NOLINT: Highway's name
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "reduction/kernels/loops-inl.hpp"
#include "reduction/kernels/parts-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace unisono::kernels::HWY_NAMESPACE {
namespace {

template <typename T>
struct Real : Plain<T> {
  static HWY_INLINE void store(typename Plain<T>::V value, std::byte* to) {
    Plain<T>::store(withOneNan(value), to);
  }
  static HWY_INLINE void storeFew(typename Plain<T>::V value, std::byte* to, std::size_t bytes) {
    Plain<T>::storeFew(withOneNan(value), to, bytes);
  }
};

/// Codec of complex numbers: real and imaginary parts in a vector each.
template <typename T>
struct Complex {
  using Tag = hn::ScalableTag<T>;
  using Part = hn::Vec<Tag>;
  struct V {
    Part real;
    Part imaginary;
  };
  static constexpr std::size_t kElementBytes = 2 * sizeof(T);

  static HWY_INLINE std::size_t lanes() { return hn::Lanes(Tag()); }
  // Plain code, unlike vectors, may not read numbers where they are not aligned.
  static constexpr bool kPlain = HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR;

  static HWY_INLINE std::size_t size() { return lanes() * kElementBytes; }
  static HWY_INLINE V load(const std::byte* from) {
    return kPlain ? loadFew(from, size()) : loadLanes(from);
  }
  static HWY_INLINE void store(V value, std::byte* to) {
    kPlain ? storeFew(value, to, size()) : storeLanes(value, to);
  }
  static HWY_INLINE V loadFew(const std::byte* from, std::size_t bytes) {
    alignas(64) std::byte buffer[2 * HWY_MAX_BYTES] = {};
    copyFew(buffer, from, bytes);
    return loadLanes(buffer);
  }
  static HWY_INLINE void storeFew(V value, std::byte* to, std::size_t bytes) {
    alignas(64) std::byte buffer[2 * HWY_MAX_BYTES];
    storeLanes(value, buffer);
    copyFew(to, buffer, bytes);
  }

 private:
  static HWY_INLINE V loadLanes(const std::byte* from) {
    V value;
    hn::LoadInterleaved2(Tag(), lanesAt<T>(from), value.real, value.imaginary);
    return value;
  }
  static HWY_INLINE void storeLanes(V value, std::byte* to) {
    hn::StoreInterleaved2(withOneNan(value.real), withOneNan(value.imaginary), Tag(),
                          lanesAt<T>(to));
  }
};

/// (a + bi)(c + di) by the book, also where that makes NaN of an infinite factor.
struct ComplexProduct {
  template <class V>
  static HWY_INLINE V apply(V x, V y) {
    return {hn::Sub(hn::Mul(x.real, y.real), hn::Mul(x.imaginary, y.imaginary)),
            hn::Add(hn::Mul(x.real, y.imaginary), hn::Mul(x.imaginary, y.real))};
  }
};

template <typename T>
constexpr Row realRow() {
  return {&Loops<Real<T>, Sum, AsItIs>::run,
          &Loops<Real<T>, Sum, Quotient>::run,
          &Loops<Real<T>, Product, AsItIs>::run,
          &Loops<Real<T>, Min, AsItIs>::run,
          &Loops<Real<T>, Max, AsItIs>::run,
          nullptr,
          nullptr,
          nullptr,
          &Loops<Real<T>, Sum, Scaled>::run};
}

template <typename T>
constexpr Row complexRow() {
  return {nullptr, nullptr, &Loops<Complex<T>, ComplexProduct, AsItIs>::run};
}

constexpr Row kRows[] = {realRow<float>(), realRow<double>(), complexRow<float>(),
                         complexRow<double>()};

const Row* rows() {
  return kRows;
}

}  // namespace
}  // namespace unisono::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unisono::kernels {

HWY_EXPORT(rows);

const Row& floatRow(DType type) {
  const Row* all = HWY_DYNAMIC_DISPATCH(rows)();
  switch (type) {
    case DType::FLOAT32:
      return all[0];
    case DType::FLOAT64:
      return all[1];
    case DType::COMPLEX64:
      return all[2];
    default:
      return all[3];
  }
}

}  // namespace unisono::kernels
#endif

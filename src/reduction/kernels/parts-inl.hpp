// What kernels of several types are made of: plain vectors, the operations, and a quotient.
#include <cstddef>
#include <hwy/highway.h>
#include <limits>

#if defined(UNISONO_REDUCTION_PARTS) == defined(HWY_TARGET_TOGGLE)
#ifdef UNISONO_REDUCTION_PARTS
#undef UNISONO_REDUCTION_PARTS
#else
#define UNISONO_REDUCTION_PARTS
#endif

HWY_BEFORE_NAMESPACE();
namespace unisono::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Memory seen as lanes. Vectors are loaded and stored whatever the alignment.
template <typename T>
HWY_INLINE const T* lanesAt(const std::byte* memory) {
  return reinterpret_cast<const T*>(memory);
}
template <typename T>
HWY_INLINE T* lanesAt(std::byte* memory) {
  return reinterpret_cast<T*>(memory);
}

/// How an accumulator of the vector Tag waits in memory: as it is, aligned.
template <class Tag>
struct Keeper {
  using V = hn::Vec<Tag>;
  using Lane = hn::TFromD<Tag>;

  static HWY_INLINE std::size_t keptBytes() { return hn::Lanes(Tag()) * sizeof(Lane); }
  static HWY_INLINE void keep(V value, std::byte* to) {
    hn::StoreU(value, Tag(), lanesAt<Lane>(to));
  }
  static HWY_INLINE V kept(const std::byte* from) { return hn::LoadU(Tag(), lanesAt<Lane>(from)); }
};

/// Codec of elements that are lanes already.
template <typename T, class Tag = hn::ScalableTag<T>>
struct Plain : Keeper<Tag> {
  using V = hn::Vec<Tag>;
  static constexpr std::size_t kElementBytes = sizeof(T);
  static constexpr std::size_t kMostBytes = HWY_MAX_BYTES;

  static HWY_INLINE std::size_t lanes() { return hn::Lanes(Tag()); }
  static HWY_INLINE V load(const std::byte* from) { return hn::LoadU(Tag(), lanesAt<T>(from)); }
  static HWY_INLINE void store(V value, std::byte* to) { hn::StoreU(value, Tag(), lanesAt<T>(to)); }
};

/// `value`, with the one quiet NaN (positive, no payload) for every NaN. Which NaN a sum of two
/// has depends on the processor and on how the compiler ordered the operands.
template <class V>
HWY_INLINE V withOneNan(V value) {
  const hn::DFromV<V> d;
  using T = hn::TFromD<decltype(d)>;
  return hn::IfThenElse(hn::IsNaN(value), hn::Set(d, std::numeric_limits<T>::quiet_NaN()), value);
}

struct Sum {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Add(a, b);
  }
};

struct Product {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Mul(a, b);
  }
};

/// Of numbers that compare equal (the zeros) the earlier stays. A NaN stays once it is there.
struct Min {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      return hn::IfThenElse(hn::Or(hn::Le(a, b), hn::IsNaN(a)), a, b);
    } else {
      return hn::Min(a, b);
    }
  }
};

struct Max {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      return hn::IfThenElse(hn::Or(hn::Ge(a, b), hn::IsNaN(a)), a, b);
    } else {
      return hn::Max(a, b);
    }
  }
};

struct AsItIs {
  explicit HWY_INLINE AsItIs(double /*number*/) {}
  template <class V>
  HWY_INLINE V operator()(V value) const {
    return value;
  }
};

struct Scaled {
  double factor;

  explicit HWY_INLINE Scaled(double number) : factor(number) {}
  template <class V>
  HWY_INLINE V operator()(V value) const {
    const hn::DFromV<V> d;
    return hn::Mul(value, hn::Set(d, static_cast<hn::TFromD<decltype(d)>>(factor)));
  }
};

/// Divided by the number of ranks. Where that is a power of two the product with its inverse has
/// the same bits, and takes a fraction of the time.
struct Quotient {
  double ranks;
  bool powerOfTwo;

  explicit HWY_INLINE Quotient(double number)
      : ranks(number),
        powerOfTwo((static_cast<std::int64_t>(number) & (static_cast<std::int64_t>(number) - 1)) ==
                   0) {}
  template <class V>
  HWY_INLINE V operator()(V value) const {
    const hn::DFromV<V> d;
    using T = hn::TFromD<decltype(d)>;
    return powerOfTwo ? hn::Mul(value, hn::Set(d, static_cast<T>(1.0 / ranks)))
                      : hn::Div(value, hn::Set(d, static_cast<T>(ranks)));
  }
};

}  // namespace unisono::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

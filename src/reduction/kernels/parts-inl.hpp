// What kernels of several types are made of: plain vectors, the operations, and a quotient.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

/// Copies fewer bytes than a vector has, without a call: moves of a power of two that may overlap.
HWY_INLINE void copyFew(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes >= 16) {
    for (std::size_t at = 0; at + 16 < bytes; at += 16) {
      std::memcpy(to + at, from + at, 16);
    }
    std::memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (bytes >= 8) {
    std::memcpy(to, from, 8);
    std::memcpy(to + bytes - 8, from + bytes - 8, 8);
  } else if (bytes >= 4) {
    std::memcpy(to, from, 4);
    std::memcpy(to + bytes - 4, from + bytes - 4, 4);
  } else if (bytes >= 2) {
    std::memcpy(to, from, 2);
    std::memcpy(to + bytes - 2, from + bytes - 2, 2);
  } else if (bytes == 1) {
    *to = *from;
  }
}

/// At most sizeof(Word) bytes as a number, the first in its lowest bits; above them anything.
template <typename Word>
HWY_INLINE Word wordOf(const std::byte* from, std::size_t bytes) {
  const auto part = [](const std::byte* at, auto piece) HWY_ATTR {
    std::memcpy(&piece, at, sizeof(piece));
    return static_cast<std::uint64_t>(piece);
  };
  std::uint64_t word = 0;
  if (bytes == 8) {
    word = part(from, std::uint64_t{});
  } else if (bytes >= 4) {
    const std::size_t rest = bytes - 4;
    word = part(from, std::uint32_t{}) | part(from + rest, std::uint32_t{}) << (8 * rest);
  } else if (bytes >= 2) {
    const std::size_t rest = bytes - 2;
    word = part(from, std::uint16_t{}) | part(from + rest, std::uint16_t{}) << (8 * rest);
  } else {
    word = part(from, std::uint8_t{});
  }
  return static_cast<Word>(word);
}

/// The first `bytes` at `from`, fewer than a vector has; what the other lanes hold does not matter.
template <class Tag>
HWY_INLINE hn::Vec<Tag> loadFirst(Tag d, const std::byte* from, std::size_t bytes) {
  using T = hn::TFromD<Tag>;
#if HWY_TARGET <= HWY_AVX3  // has masks for lanes of all widths
  return hn::MaskedLoad(hn::FirstN(d, bytes / sizeof(T)), d, lanesAt<T>(from));
#else
  constexpr std::size_t kWordBytes = std::min<std::size_t>(8, hn::MaxLanes(Tag()) * sizeof(T));
  using Word = hwy::UnsignedFromSize<kWordBytes>;
  if (bytes <= kWordBytes) {
    // Through a register: a vector cannot be loaded from narrower stores until they have left for
    // the cache, which takes longer than all the rest.
    return hn::BitCast(d, hn::Set(hn::Repartition<Word, Tag>(), wordOf<Word>(from, bytes)));
  }
  alignas(64) std::byte buffer[HWY_MAX_BYTES] = {};
  copyFew(buffer, from, bytes);
  return hn::LoadU(d, lanesAt<T>(buffer));
#endif
}

/// The way back.
template <class Tag>
HWY_INLINE void storeFirst(hn::Vec<Tag> value, Tag d, std::byte* to, std::size_t bytes) {
  using T = hn::TFromD<Tag>;
#if HWY_TARGET <= HWY_AVX3
  hn::BlendedStore(value, hn::FirstN(d, bytes / sizeof(T)), d, lanesAt<T>(to));
#else
  alignas(64) std::byte buffer[HWY_MAX_BYTES];
  hn::StoreU(value, d, lanesAt<T>(buffer));
  copyFew(to, buffer, bytes);
#endif
}

/// Codec of elements that are lanes already.
template <typename T, class Tag = hn::ScalableTag<T>>
struct Plain {
  using V = hn::Vec<Tag>;
  static constexpr std::size_t kElementBytes = sizeof(T);

  static HWY_INLINE std::size_t lanes() { return hn::Lanes(Tag()); }
  static HWY_INLINE V load(const std::byte* from) { return hn::LoadU(Tag(), lanesAt<T>(from)); }
  static HWY_INLINE V loadFew(const std::byte* from, std::size_t bytes) {
    return loadFirst(Tag(), from, bytes);
  }
  static HWY_INLINE void store(V value, std::byte* to) { hn::StoreU(value, Tag(), lanesAt<T>(to)); }
  static HWY_INLINE void storeFew(V value, std::byte* to, std::size_t bytes) {
    storeFirst(value, Tag(), to, bytes);
  }
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

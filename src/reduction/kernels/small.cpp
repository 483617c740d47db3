// Kernels of numbers of 16 and 8 bits: reduced as floats, rounded once when they are stored.
//
// The conversions agree bit for bit with unisono::Half and the others (unisono/tensor/half.hpp);
// every NaN is stored as the type's positive quiet one. They do not depend on whether the
// processor is told to take subnormal floats for zeros.
#include "reduction/kernels/kernel.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduction/kernels/small.cpp"  // NOLINT: Highway's name
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "reduction/kernels/loops-inl.hpp"
#include "reduction/kernels/parts-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace unisono::kernels::HWY_NAMESPACE {
namespace {

using FloatTag = hn::ScalableTag<float>;
using BitsTag = hn::ScalableTag<std::uint32_t>;
using Float = hn::Vec<FloatTag>;
using Bits = hn::Vec<BitsTag>;

HWY_INLINE Bits bits(std::uint32_t value) {
  return hn::Set(BitsTag(), value);
}
HWY_INLINE Float asFloat(Bits value) {
  return hn::BitCast(FloatTag(), value);
}
HWY_INLINE Bits asBits(Float value) {
  return hn::BitCast(BitsTag(), value);
}

/// Of numbers below 2^31, which compare faster as signed ones.
HWY_INLINE hn::Mask<BitsTag> isLess(Bits a, Bits b) {
  const hn::RebindToSigned<BitsTag> d;
  return hn::RebindMask(BitsTag(), hn::Lt(hn::BitCast(d, a), hn::BitCast(d, b)));
}

/// `value` without its lowest `Shift` bits, to the nearest, ties to even.
template <int Shift>
HWY_INLINE Bits roundOff(Bits value) {
  const Bits odd = hn::And(hn::ShiftRight<Shift>(value), bits(1));
  return hn::ShiftRight<Shift>(hn::Add(value, hn::Add(odd, bits((1U << (Shift - 1)) - 1))));
}

/// The lower bits of each lane; the others are 0.
template <class Tag>
HWY_INLINE hn::Vec<Tag> narrowed(Tag d, Bits value) {
  return hn::DemoteTo(d, hn::BitCast(hn::RebindToSigned<BitsTag>(), value));
}

/// A format with a sign, `Exponent` bits and `Fraction` bits, and IEEE's bias; without infinity all
/// ones are NaN and the rest are numbers. Works on the bits, in lanes of 32.
template <int Exponent, int Fraction, bool HasInfinity>
struct Format {
  static constexpr int kBias = (1 << (Exponent - 1)) - 1;
  static constexpr int kShift = 23 - Fraction;
  static constexpr std::uint32_t kSign = 1U << (Exponent + Fraction);
  static constexpr int kSignShift = 31 - Exponent - Fraction;
  static constexpr std::uint32_t kMagnitude = kSign - 1;
  static constexpr std::uint32_t kInfinity = ((1U << Exponent) - 1) << Fraction;
  static constexpr std::uint32_t kNan =
      HasInfinity ? kInfinity | (1U << (Fraction - 1)) : kMagnitude;
  static constexpr std::uint32_t kTooLarge = HasInfinity ? kInfinity : kMagnitude;
  static constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << 23;
  /// The smallest normal number, as a float.
  static constexpr std::uint32_t kSmallestNormal = kRebias + (1U << 23);
  /// A float whose last bit counts as much as the smallest number of the format.
  static constexpr std::uint32_t kRuler = kRebias + (static_cast<std::uint32_t>(kShift + 1) << 23);

  template <class Stored>
  static HWY_INLINE Float decode(Stored narrow) {
    const Bits stored = hn::PromoteTo(BitsTag(), narrow);
    const Bits magnitude = hn::And(stored, bits(kMagnitude));
    const Bits sign = hn::ShiftLeft<kSignShift>(hn::And(stored, bits(kSign)));
    const Bits normal = hn::Add(hn::ShiftLeft<kShift>(magnitude), bits(kRebias));
    // Subnormal: as if the fraction belonged to the smallest normal number, less that number.
    const Float whole = asFloat(hn::Add(normal, bits(1U << 23)));
    const Bits subnormal = asBits(hn::Sub(whole, asFloat(bits(kSmallestNormal))));
    Bits result = hn::IfThenElse(isLess(magnitude, bits(1U << Fraction)), subnormal, normal);
    if constexpr (HasInfinity) {
      const Bits special = hn::Or(normal, bits(0x7F80'0000U));
      result = hn::IfThenElse(isLess(magnitude, bits(kInfinity)), result, special);
    } else {
      const Bits nan = bits(0x7FC0'0000U);
      result = hn::IfThenElse(hn::Eq(magnitude, bits(kMagnitude)), nan, result);
    }
    return asFloat(hn::Or(result, sign));
  }

  template <class Tag>
  static HWY_INLINE hn::Vec<Tag> encode(Tag d, Float value) {
    const Bits all = asBits(value);
    const Bits magnitude = hn::And(all, bits(0x7FFF'FFFFU));
    const Bits sign = hn::And(hn::ShiftRight<kSignShift>(all), bits(kSign));
    const Bits normal =
        hn::Min(roundOff<kShift>(hn::Sub(magnitude, bits(kRebias))), bits(kTooLarge));
    // Subnormal: the addition rounds to a multiple of the smallest number.
    const Float ruled = hn::Add(asFloat(magnitude), asFloat(bits(kRuler)));
    const Bits subnormal = hn::Sub(asBits(ruled), bits(kRuler));
    const Bits number = hn::IfThenElse(isLess(magnitude, bits(kSmallestNormal)), subnormal, normal);
    const auto nan = isLess(bits(0x7F80'0000U), magnitude);
    return narrowed(d, hn::IfThenElse(nan, bits(kNan), hn::Or(number, sign)));
  }
};

struct BrainFloat {
  template <class Stored>
  static HWY_INLINE Float decode(Stored narrow) {
    return asFloat(hn::ShiftLeft<16>(hn::PromoteTo(BitsTag(), narrow)));
  }
  template <class Tag>
  static HWY_INLINE hn::Vec<Tag> encode(Tag d, Float value) {
    const auto nan = hn::RebindMask(BitsTag(), hn::IsNaN(value));
    return narrowed(d, hn::IfThenElse(nan, bits(0x7FC0), roundOff<16>(asBits(value))));
  }
};

/// Halves where the processor converts them. It keeps subnormals and rounds as we do.
struct NativeHalf {
  using Tag = hn::Rebind<hwy::float16_t, FloatTag>;

  template <class Stored>
  static HWY_INLINE Float decode(Stored narrow) {
    return hn::PromoteTo(FloatTag(), hn::BitCast(Tag(), narrow));
  }
  template <class Bits16>
  static HWY_INLINE hn::Vec<Bits16> encode(Bits16 d, Float value) {
    return hn::BitCast(d, hn::DemoteTo(Tag(), withOneNan(value)));
  }
};

/// Codec of a format: floats, stored as `Storage`.
template <class Format, typename Storage>
struct Small {
  using Tag = hn::Rebind<Storage, FloatTag>;
  using V = Float;
  static constexpr std::size_t kElementBytes = sizeof(Storage);

  static HWY_INLINE std::size_t lanes() { return hn::Lanes(FloatTag()); }
  static HWY_INLINE V load(const std::byte* from) {
    return Format::decode(hn::LoadU(Tag(), lanesAt<Storage>(from)));
  }
  static HWY_INLINE V loadFew(const std::byte* from, std::size_t bytes) {
    return Format::decode(loadFirst(Tag(), from, bytes));
  }
  static HWY_INLINE void store(V value, std::byte* to) {
    hn::StoreU(Format::encode(Tag(), value), Tag(), lanesAt<Storage>(to));
  }
  static HWY_INLINE void storeFew(V value, std::byte* to, std::size_t bytes) {
    storeFirst(Format::encode(Tag(), value), Tag(), to, bytes);
  }
};

using E4M3 = Small<Format<4, 3, false>, std::uint8_t>;
using E5M2 = Small<Format<5, 2, true>, std::uint8_t>;
using Brain = Small<BrainFloat, std::uint16_t>;
using Binary16 = Small<
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || (HWY_ARCH_ARM_A64 && HWY_TARGET == HWY_NEON)
    NativeHalf,
#else
    Format<5, 10, true>,
#endif
    std::uint16_t>;

template <class Codec>
constexpr Row row(Kernel scale) {
  return {&Loops<Codec, Sum, AsItIs>::run,
          &Loops<Codec, Sum, Quotient>::run,
          &Loops<Codec, Product, AsItIs>::run,
          &Loops<Codec, Min, AsItIs>::run,
          &Loops<Codec, Max, AsItIs>::run,
          nullptr,
          nullptr,
          nullptr,
          scale};
}

constexpr Row kRows[] = {row<Binary16>(&Loops<Binary16, Sum, Scaled>::run),
                         row<Brain>(&Loops<Brain, Sum, Scaled>::run), row<E4M3>(nullptr),
                         row<E5M2>(nullptr)};

const Row* rows() {
  return kRows;
}

}  // namespace
}  // namespace unisono::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unisono::kernels {

HWY_EXPORT(rows);

const Row& smallRow(DType type) {
  const auto first = static_cast<std::size_t>(DType::FLOAT16);
  return HWY_DYNAMIC_DISPATCH(rows)()[static_cast<std::size_t>(type) - first];
}

}  // namespace unisono::kernels
#endif

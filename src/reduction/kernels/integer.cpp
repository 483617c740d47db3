// Kernels of integers and truth values.
//
// Sums and products wrap around. They are the same for signed and unsigned numbers, so they are
// computed in unsigned lanes only.
#include <type_traits>

#include "reduction/kernels/kernel.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduction/kernels/integer.cpp"  // NOLINT: Highway's name
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "reduction/kernels/loops-inl.hpp"
#include "reduction/kernels/parts-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace unisono::kernels::HWY_NAMESPACE {
namespace {

struct And {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::And(a, b);
  }
};

struct Or {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Or(a, b);
  }
};

struct Xor {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Xor(a, b);
  }
};

/// Codec of truth values: every byte but 0 is true, and true is stored as 1.
struct Truth : Plain<std::uint8_t> {
  static HWY_INLINE V load(const std::byte* from) { return truth(Plain::load(from)); }
  static HWY_INLINE V loadFew(const std::byte* from, std::size_t bytes) {
    return truth(Plain::loadFew(from, bytes));
  }

 private:
  static HWY_INLINE V truth(V bytes) {
    return hn::Min(bytes, hn::Set(hn::ScalableTag<std::uint8_t>(), 1));
  }
};

/// Codec of 8 or 16 bits in lanes of 32, of which only the lower bits mean something: for what
/// there is no narrower instruction for.
template <typename T>
struct Widened {
  using Tag = hn::ScalableTag<std::uint32_t>;
  using Narrow = hn::Rebind<T, Tag>;
  using V = hn::Vec<Tag>;
  static constexpr std::size_t kElementBytes = sizeof(T);

  static HWY_INLINE std::size_t lanes() { return hn::Lanes(Tag()); }
  static HWY_INLINE V load(const std::byte* from) {
    return hn::PromoteTo(Tag(), hn::LoadU(Narrow(), lanesAt<T>(from)));
  }
  static HWY_INLINE V loadFew(const std::byte* from, std::size_t bytes) {
    return hn::PromoteTo(Tag(), loadFirst(Narrow(), from, bytes));
  }
  static HWY_INLINE void store(V value, std::byte* to) {
    hn::StoreU(hn::TruncateTo(Narrow(), value), Narrow(), lanesAt<T>(to));
  }
  static HWY_INLINE void storeFew(V value, std::byte* to, std::size_t bytes) {
    storeFirst(hn::TruncateTo(Narrow(), value), Narrow(), to, bytes);
  }
};

/// A sum of 8 or 16 bits divided by the number of ranks, towards zero. The quotient of floats
/// rounds to a whole number only if it is one: sums have 16 bits, a float has 24.
template <typename T>
struct QuotientOfWidened {
  double ranks;

  explicit HWY_INLINE QuotientOfWidened(double number) : ranks(number) {}
  template <class V>
  HWY_INLINE V operator()(V sum) const {
    const hn::DFromV<V> d;
    const hn::RebindToSigned<decltype(d)> dSigned;
    const hn::RebindToFloat<decltype(d)> dFloat;
    constexpr int kUpper = 32 - 8 * static_cast<int>(sizeof(T));
    const V top = hn::ShiftLeft<kUpper>(sum);
    hn::Vec<decltype(dSigned)> value;
    if constexpr (std::is_signed_v<T>) {
      value = hn::ShiftRight<kUpper>(hn::BitCast(dSigned, top));
    } else {
      value = hn::BitCast(dSigned, hn::ShiftRight<kUpper>(top));
    }
    const auto quotient =
        hn::Div(hn::ConvertTo(dFloat, value), hn::Set(dFloat, static_cast<float>(ranks)));
    return hn::BitCast(d, hn::ConvertTo(dSigned, quotient));
  }
};

/// The same for 32 bits, in doubles. The sums are half a vector, so that they fit into one.
template <typename T>
struct QuotientOf32 {
  double ranks;

  explicit HWY_INLINE QuotientOf32(double number) : ranks(number) {}
  template <class V>
  HWY_INLINE V operator()(V sum) const {
    const hn::DFromV<V> d;
    const hn::RebindToSigned<decltype(d)> dSigned;
    const hn::Rebind<double, decltype(d)> dDouble;
    const auto wrap = hn::Set(dDouble, 4294967296.0);
    auto value = hn::PromoteTo(dDouble, hn::BitCast(dSigned, sum));
    if constexpr (std::is_unsigned_v<T>) {
      value = hn::IfThenElse(hn::Lt(value, hn::Zero(dDouble)), hn::Add(value, wrap), value);
    }
    auto quotient = hn::Div(value, hn::Set(dDouble, ranks));
    if constexpr (std::is_unsigned_v<T>) {  // above the largest int32_t only for one rank
      const auto large = hn::Ge(quotient, hn::Set(dDouble, 2147483648.0));
      quotient = hn::IfThenElse(large, hn::Sub(quotient, wrap), quotient);
    }
    return hn::BitCast(d, hn::DemoteTo(dSigned, quotient));
  }
};

/// The same for 64 bits, lane by lane: no instruction divides them.
template <typename T>
struct QuotientOf64 {
  T ranks;

  explicit HWY_INLINE QuotientOf64(double number) : ranks(static_cast<T>(number)) {}
  template <class V>
  HWY_INLINE V operator()(V sum) const {
    const hn::DFromV<V> d;
    alignas(64) std::uint64_t lanes[HWY_MAX_BYTES / 8];
    hn::Store(sum, d, lanes);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
      lanes[i] = static_cast<std::uint64_t>(static_cast<T>(lanes[i]) / ranks);
    }
    return hn::Load(d, lanes);
  }
};

template <typename T>
constexpr Kernel average() {
  using Lane = std::make_unsigned_t<T>;
  if constexpr (sizeof(T) <= 2) {
    return &Loops<Widened<Lane>, Sum, QuotientOfWidened<T>>::run;
  } else if constexpr (sizeof(T) == 4) {
    using Halved = hn::Rebind<Lane, hn::ScalableTag<double>>;
    return &Loops<Plain<Lane, Halved>, Sum, QuotientOf32<T>>::run;
  } else {
    return &Loops<Plain<Lane>, Sum, QuotientOf64<T>>::run;
  }
}

template <typename T>
constexpr Kernel product() {
  using Lane = std::make_unsigned_t<T>;
  using Codec = std::conditional_t<sizeof(T) == 1, Widened<std::uint8_t>, Plain<Lane>>;
  return &Loops<Codec, Product, AsItIs>::run;
}

template <typename T>
constexpr Row row() {
  return {&Loops<Plain<std::make_unsigned_t<T>>, Sum, AsItIs>::run, average<T>(), product<T>(),
          &Loops<Plain<T>, Min, AsItIs>::run, &Loops<Plain<T>, Max, AsItIs>::run};
}

constexpr Row bitsRow() {
  Row all = row<std::uint8_t>();
  all[static_cast<std::size_t>(kernels::Op::BAND)] = &Loops<Plain<std::uint8_t>, And, AsItIs>::run;
  all[static_cast<std::size_t>(kernels::Op::BOR)] = &Loops<Plain<std::uint8_t>, Or, AsItIs>::run;
  all[static_cast<std::size_t>(kernels::Op::BXOR)] = &Loops<Plain<std::uint8_t>, Xor, AsItIs>::run;
  return all;
}

constexpr Row truthRow() {
  constexpr Kernel kAnd = &Loops<Truth, And, AsItIs>::run;
  constexpr Kernel kOr = &Loops<Truth, Or, AsItIs>::run;
  return {kOr, nullptr, kAnd, kAnd, kOr, kAnd, kOr, &Loops<Truth, Xor, AsItIs>::run};
}

constexpr Row kRows[] = {
    row<std::int8_t>(), row<std::int16_t>(),  row<std::int32_t>(),  row<std::int64_t>(),
    bitsRow(),          row<std::uint16_t>(), row<std::uint32_t>(), row<std::uint64_t>(),
    truthRow()};

const Row* rows() {
  return kRows;
}

}  // namespace
}  // namespace unisono::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unisono::kernels {

HWY_EXPORT(rows);

const Row& integerRow(DType type) {
  const auto first = static_cast<std::size_t>(DType::INT8);
  return HWY_DYNAMIC_DISPATCH(rows)()[static_cast<std::size_t>(type) - first];
}

}  // namespace unisono::kernels
#endif

// What reduction.hpp promises of particular values, written out.
#include <array>
#include <bit>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "unisono/base/error.hpp"

#include "reduction/instruction_set.hpp"
#include "reduction/reduction.hpp"
#include "reduction/samples.hpp"

namespace unisono {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// The reduction of one element from each of some ranks.
template <typename T>
T reduced(ReduceOp op, std::initializer_list<T> values, DType type = kDType<T>) {
  std::vector<const std::byte*> sources;
  for (const T& value : values) {
    sources.push_back(reinterpret_cast<const std::byte*>(&value));
  }
  T result{};
  Reduction::of(type, op, static_cast<int>(values.size()))
      .reduce(reinterpret_cast<std::byte*>(&result), sources, 1);
  return result;
}

std::uint32_t bitsOf(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

TEST(ReductionSpecialsTest, EveryNanIsThePositiveQuietOne) {
  const auto strange = std::bit_cast<float>(0xFFC1'2345U);
  const auto signalling = std::bit_cast<float>(0x7F80'0001U);
  for (const RedOpType op :
       {ReduceOp::SUM, ReduceOp::AVG, ReduceOp::PRODUCT, ReduceOp::MIN, ReduceOp::MAX}) {
    EXPECT_EQ(bitsOf(reduced<float>(op, {strange, 1.0F})), 0x7FC0'0000U) << name(op);
    EXPECT_EQ(bitsOf(reduced<float>(op, {1.0F, 2.0F, signalling})), 0x7FC0'0000U) << name(op);
    EXPECT_EQ(bitsOf(reduced<float>(op, {strange})), 0x7FC0'0000U) << name(op);
    EXPECT_EQ(reduced<Half>(op, {Half(1.0F), Half(-kNan)}).bits, 0x7E00) << name(op);
    EXPECT_EQ(reduced<BFloat16>(op, {BFloat16(-kNan), BFloat16(1.0F)}).bits, 0x7FC0) << name(op);
    EXPECT_EQ(reduced<Float8E4M3>(op, {Float8E4M3(-kNan)}).bits, 0x7F) << name(op);
    EXPECT_EQ(reduced<Float8E5M2>(op, {Float8E5M2(-kNan)}).bits, 0x7E) << name(op);
  }
  EXPECT_EQ(bitsOf(reduced<float>(ReduceOp::SUM, {kInf, -kInf})), 0x7FC0'0000U);
}

TEST(ReductionSpecialsTest, OfTwoZerosTheEarlierSourceWins) {
  EXPECT_TRUE(std::signbit(reduced<float>(ReduceOp::MAX, {-0.0F, 0.0F})));
  EXPECT_FALSE(std::signbit(reduced<float>(ReduceOp::MIN, {0.0F, -0.0F})));
}

TEST(ReductionSpecialsTest, SubnormalsAreKept) {
  const double tiny = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(reduced<float>(ReduceOp::SUM, {1e-45F, 1e-45F}), 2.8e-45F);
  EXPECT_EQ(reduced<double>(ReduceOp::SUM, {tiny, tiny}), 2 * tiny);
  EXPECT_EQ(reduced<BFloat16>(ReduceOp::SUM, {BFloat16(1e-40F), BFloat16(0.0F)}).bits,
            BFloat16(1e-40F).bits);
  Half smallest;
  smallest.bits = 1;
  EXPECT_EQ(reduced<Half>(ReduceOp::SUM, {smallest, smallest, smallest}).bits, 3);
}

TEST(ReductionSpecialsTest, SmallNumbersAreRoundedOnce) {
  // 2049 is no half: adding one at a time in halves would stay at 2048.
  const Half one(1.0F);
  EXPECT_EQ(static_cast<float>(reduced<Half>(ReduceOp::SUM, {Half(2048.0F), one, one})), 2050.0F);
  // The sum is larger than the largest half, the average is not.
  const Half large(60000.0F);
  EXPECT_EQ(reduced<Half>(ReduceOp::AVG, {large, large}).bits, large.bits);
  EXPECT_EQ(static_cast<float>(reduced<Half>(ReduceOp::SUM, {large, large})), kInf);
}

TEST(ReductionSpecialsTest, IntegersWrapAround) {
  constexpr auto kLeast = std::numeric_limits<std::int32_t>::min();
  EXPECT_EQ(reduced<std::int32_t>(ReduceOp::SUM, {kLeast, -1}), 2147483647);
  EXPECT_EQ(reduced<std::int32_t>(ReduceOp::PRODUCT, {kLeast, -1}), kLeast);
  EXPECT_EQ(reduced<std::int8_t>(ReduceOp::SUM, {100, 100}), -56);
  EXPECT_EQ(reduced<std::uint8_t>(ReduceOp::PRODUCT, {16, 17}), 16);
  EXPECT_EQ(reduced<std::uint16_t>(ReduceOp::PRODUCT, {65535, 65535}), 1);
  EXPECT_EQ(reduced<std::int64_t>(ReduceOp::PRODUCT, {1LL << 62, 6}), 1LL << 63);
}

TEST(ReductionSpecialsTest, AveragesOfIntegersAreCutTowardsZero) {
  EXPECT_EQ(reduced<std::int32_t>(ReduceOp::AVG, {-3, -4}), -3);
  EXPECT_EQ(reduced<std::int8_t>(ReduceOp::AVG, {7, 0}), 3);
  EXPECT_EQ(reduced<std::int8_t>(ReduceOp::AVG, {100, 100}), -28) << "the sum wraps first";
  EXPECT_EQ(reduced<std::int64_t>(ReduceOp::AVG, {-(1LL << 60) - 1, 0}), -(1LL << 59));
  EXPECT_EQ(reduced<std::uint64_t>(ReduceOp::AVG, {1ULL << 63, 2}), (1ULL << 62) + 1);
}

/// Sums and numbers of ranks at the limits of what the floating-point division was thought out for.
TEST(ReductionSpecialsTest, AveragesOfIntegersAreExactForAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 7, 127, 128, 255, 65535, 65537, 16777217, 2147483647}) {
    for (const DType type : {DType::INT8, DType::INT16, DType::INT32, DType::INT64, DType::UINT8,
                             DType::UINT16, DType::UINT32, DType::UINT64}) {
      std::vector<std::byte> all = samples(type, 2000, static_cast<std::uint64_t>(ranks));
      const std::array<const std::byte*, 1> source{all.data()};
      std::vector<std::byte> result(all.size());
      Reduction::of(type, ReduceOp::AVG, ranks).reduce(result.data(), source, 2000);
      EXPECT_EQ(result, reference::reduce(type, RedOpType::AVG, ranks, source, 2000))
          << name(type) << " / " << ranks;
    }
  }
}

TEST(ReductionSpecialsTest, AnyByteButZeroIsTrue) {
  const auto of = [](RedOpType op, std::initializer_list<std::uint8_t> values) {
    return reduced<std::uint8_t>(op, values, DType::BOOL);
  };
  EXPECT_EQ(of(ReduceOp::SUM, {2, 254}), 1);
  EXPECT_EQ(of(ReduceOp::BAND, {2, 1}), 1) << "though they share no bit";
  EXPECT_EQ(of(ReduceOp::BXOR, {2, 1}), 0);
  EXPECT_EQ(of(ReduceOp::MAX, {128}), 1);
}

TEST(ReductionSpecialsTest, ComplexNumbersAreMultipliedAsSuch) {
  using C = std::complex<double>;
  EXPECT_EQ(reduced<C>(ReduceOp::PRODUCT, {C(1, 2), C(3, 4)}), C(-5, 10));
  EXPECT_EQ(reduced<C>(ReduceOp::AVG, {C(1, 2), C(3, 5)}), C(2, 3.5));
}

TEST(ScaleTest, MultipliesAndRoundsAsTheTypeDoes) {
  constexpr std::size_t kCounts[] = {0, 1, 5, 16, 33, 1000};
  for (const std::string& set : instructionSets()) {
    useInstructionSet(set);
    for (const std::size_t count : kCounts) {
      for (const DType type : {DType::FLOAT16, DType::BFLOAT16, DType::FLOAT32, DType::FLOAT64}) {
        std::vector<std::byte> from = samples(type, count, 7);
        std::vector<std::byte> expected(from.size());
        visit(type, [&]<typename T>(std::type_identity<T>) {
          if constexpr (reference::kIsSmall<T> || std::is_floating_point_v<T>) {
            using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
            for (std::size_t i = 0; i < count; ++i) {
              T value;
              std::memcpy(&value, &from[i * sizeof(T)], sizeof(T));
              value = T(reference::oneNan(static_cast<Wide>(value) * static_cast<Wide>(1.0 / 3)));
              std::memcpy(&expected[i * sizeof(T)], &value, sizeof(T));
            }
          }
        });
        std::vector<std::byte> into(from.size());

        scale(type, into.data(), from.data(), count, 1.0 / 3);
        scale(type, from.data(), from.data(), count, 1.0 / 3);

        EXPECT_EQ(into, expected) << name(type) << " × " << count << ", " << set;
        EXPECT_EQ(from, expected) << name(type) << " × " << count << " in place, " << set;
      }
    }
    useBestInstructionSet();
  }
}

TEST(ScaleTest, RefusesTypesThatPreMulSumDoesNotHave) {
  for (const DType type : {DType::INT32, DType::BOOL, DType::FLOAT8_E5M2, DType::COMPLEX64}) {
    EXPECT_THAT([&] { scale(type, nullptr, nullptr, 0, 2.0); },
                ThrowsMessage<UsageError>(
                    HasSubstr("PreMulSum Data type must be half, float, bfloat16 or double")));
  }
}

TEST(InstructionSetTest, ThereIsAlwaysOneThatEveryProcessorHas) {
  EXPECT_FALSE(instructionSets().empty());
  EXPECT_THROW(useInstructionSet("abacus"), UsageError);
}

}  // namespace
}  // namespace unisono

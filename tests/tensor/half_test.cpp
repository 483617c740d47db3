#include "unisono/tensor/half.hpp"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace unisono {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Every value of a small type: back and forth without a change.
template <typename Small>
class HalfTest : public ::testing::Test {};
using SmallTypes = ::testing::Types<Half, BFloat16, Float8E4M3, Float8E5M2>;
TYPED_TEST_SUITE(HalfTest, SmallTypes);

TYPED_TEST(HalfTest, EveryValueSurvivesTheWayThroughFloat) {
  using Bits = decltype(TypeParam::bits);
  for (std::uint32_t i = 0; i <= std::numeric_limits<Bits>::max(); ++i) {
    TypeParam value;
    value.bits = static_cast<Bits>(i);
    const auto wide = static_cast<float>(value);
    const TypeParam back(wide);
    if (std::isnan(wide)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(back))) << i;
    } else {
      ASSERT_EQ(back.bits, value.bits) << i << " is " << wide;
    }
  }
}

/// Between two neighbours: nearer one wins, the middle goes to the even one.
TYPED_TEST(HalfTest, RoundsToTheNearestAndTiesToEven) {
  using Bits = decltype(TypeParam::bits);
  constexpr auto kPositive = std::numeric_limits<Bits>::max() / 2;
  for (std::uint32_t i = 0; i < kPositive; ++i) {
    TypeParam low;
    TypeParam high;
    low.bits = static_cast<Bits>(i);
    high.bits = static_cast<Bits>(i + 1);
    const auto a = static_cast<double>(static_cast<float>(low));
    const auto b = static_cast<double>(static_cast<float>(high));
    if (!std::isfinite(a) || !std::isfinite(b)) {
      continue;
    }
    const auto middle = static_cast<float>((a + b) / 2);
    const TypeParam even = i % 2 == 0 ? low : high;
    ASSERT_EQ(TypeParam(middle).bits, even.bits) << a << " … " << b;
    ASSERT_EQ(TypeParam(std::nextafter(middle, 0.0F)).bits, low.bits) << a << " … " << b;
    ASSERT_EQ(TypeParam(std::nextafter(middle, kInf)).bits, high.bits) << a << " … " << b;
    ASSERT_EQ(static_cast<float>(TypeParam(-middle)), -static_cast<float>(even)) << a;
  }
}

TYPED_TEST(HalfTest, KeepsNanAndTheSignOfZero) {
  EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(kNan))));
  EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(std::bit_cast<float>(0x7F80'0001U)))));
  EXPECT_TRUE(std::signbit(static_cast<float>(TypeParam(-0.0F))));
  EXPECT_EQ(static_cast<float>(TypeParam(1e-30F * 1e-15F)), 0.0F);
}

TEST(HalfLimitsTest, WhatIsTooLargeBecomesInfinity) {
  EXPECT_EQ(static_cast<float>(Half(65504.0F)), 65504.0F);
  EXPECT_EQ(static_cast<float>(Half(65519.9F)), 65504.0F);
  EXPECT_EQ(static_cast<float>(Half(65520.0F)), kInf);
  EXPECT_EQ(static_cast<float>(Half(-kInf)), -kInf);
  EXPECT_EQ(static_cast<float>(BFloat16(std::numeric_limits<float>::max())), kInf);
  EXPECT_EQ(static_cast<float>(Float8E5M2(57344.0F)), 57344.0F);
  EXPECT_EQ(static_cast<float>(Float8E5M2(61440.0F)), kInf);
}

TEST(HalfLimitsTest, E4M3HasNoInfinityButNan) {
  EXPECT_EQ(static_cast<float>(Float8E4M3(448.0F)), 448.0F);
  EXPECT_EQ(static_cast<float>(Float8E4M3(464.0F)), 448.0F) << "a tie, to even";
  EXPECT_TRUE(std::isnan(static_cast<float>(Float8E4M3(465.0F))));
  EXPECT_TRUE(std::isnan(static_cast<float>(Float8E4M3(kInf))));
}

TEST(HalfLimitsTest, KeepsSubnormalNumbers) {
  EXPECT_EQ(static_cast<float>(Half(5.9604645e-8F)), 5.9604645e-8F);
  EXPECT_EQ(BFloat16(1e-40F).bits, 0x0001);
  EXPECT_EQ(static_cast<float>(Float8E4M3(0.001953125F)), 0.001953125F);
}

}  // namespace
}  // namespace unisono

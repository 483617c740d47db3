#include "store/decimal.hpp"

#include <gmock/gmock.h>
#include <limits>

namespace unisono {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

std::int64_t sum(std::string_view stored, std::int64_t delta) {
  const Result<std::int64_t> result = addDecimal(stored, delta);
  EXPECT_TRUE(result.isOk()) << stored;
  return result.isOk() ? result.value() : -1;
}

std::string refusal(std::string_view stored, std::int64_t delta) {
  const Result<std::int64_t> result = addDecimal(stored, delta);
  EXPECT_FALSE(result.isOk()) << stored;
  return result.isOk() ? "" : result.failure().text();
}

TEST(AddDecimalTest, TakesNothingForZero) {
  EXPECT_EQ(sum("", 5), 5);
  EXPECT_EQ(sum("", kMin), kMin);
}

TEST(AddDecimalTest, SkipsBlanksTakesASignAndIgnoresWhatFollows) {
  EXPECT_EQ(sum("7", 1), 8);
  EXPECT_EQ(sum(" \t\n7", 1), 8);
  EXPECT_EQ(sum("-7", 1), -6);
  EXPECT_EQ(sum("+7", 1), 8);
  EXPECT_EQ(sum("7abc", 1), 8);
  EXPECT_EQ(sum("0x10", 1), 1);
  EXPECT_EQ(sum("007", 0), 7);
  EXPECT_EQ(sum(std::string_view("7\0008", 3), 0), 7);
}

TEST(AddDecimalTest, RefusesTextAndQuotesIt) {
  for (const std::string_view text : {"abc", " ", "-", "+", "+-1", "-+1", "--1", "+ 1"}) {
    EXPECT_THAT(refusal(text, 1), HasSubstr("is not a number"));
  }
  EXPECT_THAT(refusal("abc", 1), HasSubstr("'abc'"));
  EXPECT_LT(refusal(std::string(1 << 20, 'x'), 1).size(), 100U);
}

TEST(AddDecimalTest, RefusesWhatDoesNotFit) {
  EXPECT_EQ(sum("9223372036854775807", 0), kMax);
  EXPECT_EQ(sum("-9223372036854775808", 0), kMin);
  EXPECT_THAT(refusal("9223372036854775808", 0), HasSubstr("does not fit"));
  EXPECT_THAT(refusal("9223372036854775807", 1), HasSubstr("overflows"));
  EXPECT_THAT(refusal("-9223372036854775808", -1), HasSubstr("overflows"));
}

}  // namespace
}  // namespace unisono

#include "base/check.hpp"

#include <gmock/gmock.h>

namespace unisono {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(CheckTest, ThrowsUsageErrorWithTheSentenceMadeOfTheParts) {
  const int size = 0;

  EXPECT_THAT([&] { UNISONO_CHECK(size > 0, "world size cannot be ", size); },
              ThrowsMessage<UsageError>(HasSubstr("world size cannot be 0. [USAGE]")));
}

TEST(CheckTest, DoesNothingWhenTheConditionHolds) {
  int evaluated = 0;

  EXPECT_NO_THROW(UNISONO_CHECK(++evaluated == 1, "never"));
  EXPECT_EQ(evaluated, 1);
}

TEST(CheckTest, BuildsTheSentenceOnlyWhenItIsNeeded) {
  bool built = false;
  const auto part = [&] {
    built = true;
    return "part";
  };

  UNISONO_CHECK(true, part());
  EXPECT_FALSE(built);
  EXPECT_THROW(UNISONO_CHECK(false, part()), UsageError);
  EXPECT_TRUE(built);
}

TEST(CheckTest, IsOneStatement) {
  bool other = false;
  // clang-format off
  if (other) UNISONO_CHECK(false, "not reached"); else other = true;
  // clang-format on

  EXPECT_TRUE(other);
}

TEST(DcheckTest, AllowsVariablesThatOnlyItLooksAt) {
  const int onlyChecked = 3;

  UNISONO_DCHECK(onlyChecked == 3);  // must not warn in any build
}

#ifdef NDEBUG
TEST(DcheckTest, CostsNothingInReleaseBuilds) {
  int evaluated = 0;

  UNISONO_DCHECK(++evaluated == 2);

  EXPECT_EQ(evaluated, 0);
}
#else
TEST(DcheckDeathTest, EndsTheProcessNamingPlaceAndAssumption) {
  EXPECT_DEATH(UNISONO_DCHECK(1 + 1 == 3),
               "unisono: broken assumption at .*check_test.cpp:[0-9]+: 1 \\+ 1 == 3");
}
#endif

}  // namespace
}  // namespace unisono

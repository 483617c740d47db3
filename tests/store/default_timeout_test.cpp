// How long a store waits when only the environment says so.
#include <gmock/gmock.h>

#include "unisono/base/error.hpp"
#include "unisono/store/hash_store.hpp"

#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::errorOf;
using test::ScopedEnv;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

std::chrono::milliseconds timeoutWith(const std::string& setting) {
  const ScopedEnv seconds("UNISONO_TIMEOUT", setting);
  return HashStore().timeout();
}

TEST(DefaultTimeoutTest, IsThatOfTheEnvironmentInSeconds) {
  EXPECT_EQ(timeoutWith(""), 300s);
  EXPECT_EQ(timeoutWith("0"), 300s);
  EXPECT_EQ(timeoutWith("0.25"), 250ms);
  EXPECT_EQ(timeoutWith("2592000"), 30 * 24h);
}

TEST(DefaultTimeoutTest, NeverMeansNotToWait) {
  EXPECT_EQ(timeoutWith("0.0001"), 1ms);
}

TEST(DefaultTimeoutTest, IsAsLongAsPossibleWhereMoreIsAskedFor) {
  EXPECT_EQ(timeoutWith("1e300"), std::chrono::milliseconds::max());
}

TEST(DefaultTimeoutTest, RefusesToBeNegative) {
  const auto error = errorOf<UsageError>([] { timeoutWith("-1"); });

  ASSERT_TRUE(error);
  EXPECT_EQ(error->reason, Reason::CONFIG);
  EXPECT_THAT(error->what, HasSubstr("UNISONO_TIMEOUT is -1"));
}

}  // namespace
}  // namespace unisono

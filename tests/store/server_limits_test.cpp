// The limits of a server, as the environment and the system set them.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include "unisono/base/error.hpp"

#include "store/expect.hpp"
#include "store/tcp/server.hpp"
#include "support/support.hpp"

namespace unisono::tcp {
namespace {

using ::testing::HasSubstr;
using ::unisono::test::runInChild;
using ::unisono::test::ScopedEnv;
using ::unisono::test::textOf;

/// serverLimits().connections in a process that may open `soft` files, and `hard` if it asks.
std::size_t connectionsWith(rlim_t soft, rlim_t hard) {
  const rlimit limit{.rlim_cur = soft, .rlim_max = hard};
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return serverLimits().connections;
}

TEST(ServerLimitsTest, CountsOnAllDescriptorsThatTheServerCanGet) {
  EXPECT_EQ(runInChild([] { return connectionsWith(1024, 4096) == 4096 - 256; }), 0);
}

TEST(ServerLimitsTest, ServesAFewWhereDescriptorsAreScarce) {
  EXPECT_EQ(runInChild([] { return connectionsWith(20, 20) == 256; }), 0);
}

TEST(ServerLimitsTest, AreThoseOfTheEnvironment) {
  const ScopedEnv key("UNISONO_STORE_MAX_KEY_BYTES", "10");
  const ScopedEnv value("UNISONO_STORE_MAX_VALUE_BYTES", "11");
  const ScopedEnv count("UNISONO_STORE_MAX_KEYS_PER_COMMAND", "12");
  const ScopedEnv command("UNISONO_STORE_MAX_COMMAND_BYTES", "13");
  const ScopedEnv contents("UNISONO_STORE_MAX_BYTES", "14");
  const ScopedEnv keys("UNISONO_STORE_MAX_KEYS", "15");
  const ScopedEnv connections("UNISONO_STORE_MAX_CONNECTIONS", "16");

  const StoreLimits limits = serverLimits();

  EXPECT_EQ(limits.keyBytes, 10U);
  EXPECT_EQ(limits.valueBytes, 11U);
  EXPECT_EQ(limits.keysPerCommand, 12U);
  EXPECT_EQ(limits.commandBytes, 13U);
  EXPECT_EQ(limits.contentBytes, 14U);
  EXPECT_EQ(limits.keys, 15U);
  EXPECT_EQ(limits.connections, 16U);
}

TEST(ServerLimitsTest, RefuseWhatCannotBe) {
  const ScopedEnv keys("UNISONO_STORE_MAX_KEYS", "0");

  EXPECT_THAT(textOf<UsageError>([] { serverLimits(); }),
              HasSubstr("UNISONO_STORE_MAX_KEYS must be greater than 0"));
}

}  // namespace
}  // namespace unisono::tcp

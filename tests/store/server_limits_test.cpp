// The limits of a server, as the environment and the system set them.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include "unisono/base/error.hpp"

#include "store/expect.hpp"
#include "store/tcp/server.hpp"
#include "support/support.hpp"

namespace unisono::tcp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
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
  const ScopedEnv command("UNISONO_STORE_MAX_COMMAND_BYTES", "38");
  const ScopedEnv contents("UNISONO_STORE_MAX_BYTES", "14");
  const ScopedEnv keys("UNISONO_STORE_MAX_KEYS", "15");
  const ScopedEnv connections("UNISONO_STORE_MAX_CONNECTIONS", "16");
  const ScopedEnv queue("UNISONO_STORE_MAX_QUEUE_LENGTH", "17");
  const ScopedEnv unvalidated("UNISONO_STORE_MAX_UNVALIDATED", "18");
  const ScopedEnv hello("UNISONO_STORE_HELLO_MS", "19");
  const ScopedEnv stalled("UNISONO_STORE_STALLED_COMMAND_MS", "20");
  const ScopedEnv reader("UNISONO_STORE_STALLED_READER_MS", "21");
  const ScopedEnv unsent("UNISONO_STORE_MAX_UNSENT_BYTES", "22");
  const ScopedEnv pause("UNISONO_STORE_UNSENT_PAUSE_BYTES", "5");
  const ScopedEnv total("UNISONO_STORE_MAX_UNSENT_TOTAL_BYTES", "24");
  const ScopedEnv partial("UNISONO_STORE_MAX_PARTIAL_TOTAL_BYTES", "39");

  const StoreLimits limits = serverLimits();

  EXPECT_EQ(limits.keyBytes, 10U);
  EXPECT_EQ(limits.valueBytes, 11U);
  EXPECT_EQ(limits.keysPerCommand, 12U);
  EXPECT_EQ(limits.commandBytes, 38U);
  EXPECT_EQ(limits.contentBytes, 14U);
  EXPECT_EQ(limits.keys, 15U);
  EXPECT_EQ(limits.connections, 16U);
  EXPECT_EQ(limits.queueLength, 17U);
  EXPECT_EQ(limits.unvalidated, 18U);
  EXPECT_EQ(limits.helloTime, Milliseconds(19));
  EXPECT_EQ(limits.stalledCommand, Milliseconds(20));
  EXPECT_EQ(limits.stalledReader, Milliseconds(21));
  EXPECT_EQ(limits.unsentBytes, 22U);
  EXPECT_EQ(limits.unsentPause, 5U);
  EXPECT_EQ(limits.unsentTotal, 24U);
  EXPECT_EQ(limits.partialTotal, 39U);
}

TEST(ServerLimitsTest, AreThoseOfTheCodeWhenTheEnvironmentIsSilent) {
  const StoreLimits limits = serverLimits();
  const StoreLimits usual;

  EXPECT_EQ(limits.keyBytes, usual.keyBytes);
  EXPECT_EQ(limits.valueBytes, usual.valueBytes);
  EXPECT_EQ(limits.keysPerCommand, usual.keysPerCommand);
  EXPECT_EQ(limits.commandBytes, usual.commandBytes);
  EXPECT_EQ(limits.keys, usual.keys);
  EXPECT_EQ(limits.queueLength, usual.queueLength);
  EXPECT_EQ(limits.unvalidated, usual.unvalidated);
  EXPECT_EQ(limits.helloTime, usual.helloTime);
  EXPECT_EQ(limits.stalledCommand, usual.stalledCommand);
  EXPECT_EQ(limits.stalledReader, usual.stalledReader);
  EXPECT_EQ(limits.unsentBytes, usual.unsentBytes);
  EXPECT_EQ(limits.unsentPause, usual.unsentPause);
  EXPECT_EQ(limits.unsentTotal, usual.unsentTotal);
  EXPECT_EQ(limits.partialTotal, usual.partialTotal);
}

TEST(ServerLimitsTest, RefuseSettingsThatContradictEachOther) {
  const std::pair<const char*, const char*> settings[] = {
      {"UNISONO_STORE_MAX_VALUE_BYTES", "67108864"},  // no room for the rest of the request
      {"UNISONO_STORE_MAX_COMMAND_BYTES", "8388608"},
      {"UNISONO_STORE_MAX_COMMAND_BYTES", "536870913"},
      {"UNISONO_STORE_MAX_UNSENT_BYTES", "8388616"},  // a byte too little for the longest value
      {"UNISONO_STORE_MAX_UNSENT_BYTES", "536870913"},
      {"UNISONO_STORE_UNSENT_PAUSE_BYTES", "67108865"},
      {"UNISONO_STORE_MAX_UNSENT_TOTAL_BYTES", "67108863"},
      {"UNISONO_STORE_MAX_PARTIAL_TOTAL_BYTES", "67108863"},
  };
  for (const auto& [name, value] : settings) {
    const ScopedEnv env(name, value);
    EXPECT_THAT(textOf<UsageError>([] { serverLimits(); }),
                AllOf(HasSubstr("contradict each other"), HasSubstr(name), HasSubstr("[CONFIG]"),
                      Not(HasSubstr("\n"))))
        << value;
  }
}

TEST(ServerLimitsTest, AsMuchAsCanBeAskedForIsNoContradiction) {
  const char* most = "9223372036854775807";
  const ScopedEnv unsent("UNISONO_STORE_MAX_UNSENT_BYTES", most);
  const ScopedEnv total("UNISONO_STORE_MAX_UNSENT_TOTAL_BYTES", most);
  const ScopedEnv reader("UNISONO_STORE_STALLED_READER_MS", most);

  const StoreLimits limits = serverLimits();

  EXPECT_GE(limits.unsentTotal, limits.unsentBytes);
  EXPECT_GT(TimePoint() + limits.stalledReader, TimePoint()) << "it can be reckoned with";
}

TEST(ServerLimitsTest, RefuseWhatCannotBe) {
  const ScopedEnv keys("UNISONO_STORE_MAX_KEYS", "0");

  EXPECT_THAT(textOf<UsageError>([] { serverLimits(); }),
              HasSubstr("UNISONO_STORE_MAX_KEYS must be greater than 0"));
}

}  // namespace
}  // namespace unisono::tcp

#include "net/resolve.hpp"

#include <atomic>
#include <gmock/gmock.h>

#include "net/net_support.hpp"

namespace unisono {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> texts(const Result<std::vector<SocketAddress>>& result) {
  std::vector<std::string> all;
  for (const SocketAddress& address : result.value()) {
    all.push_back(address.text());
  }
  return all;
}

/// A resolver that must not be asked.
Deadline noTime() {
  return Deadline::after(Milliseconds(0));
}

TEST(ResolveTest, TakesNumbersWithoutAskingAnybody) {
  EXPECT_THAT(texts(resolve("10.0.0.1", 7, noTime())), ElementsAre("10.0.0.1:7"));
  EXPECT_THAT(texts(resolve("::1", 7, noTime())), ElementsAre("[::1]:7"));
  EXPECT_THAT(texts(resolve("[::1]", 7, noTime())), ElementsAre("[::1]:7"));
  EXPECT_THAT(texts(resolve("fe80::1%lo", 7, noTime())), ElementsAre("[fe80::1%lo]:7"));
}

TEST(ResolveTest, KnowsLocalhostInBothFamiliesWithoutAskingAnybody) {
  EXPECT_THAT(texts(resolve("localhost", 7, noTime())), ElementsAre("127.0.0.1:7", "[::1]:7"));
}

TEST(ResolveTest, RefusesAtOnceWhatCanNeverBeResolved) {
  for (const char* host : {"", "::zz", "[::1", "a b", "fe80::1%no-such-interface", "host:29500"}) {
    const auto result = resolve(host, 7, test::soon());

    ASSERT_FALSE(result.isOk()) << host;
    EXPECT_EQ(result.failure().reason(), Reason::USAGE) << host;
  }
}

TEST(ResolveTest, SaysWhenANameIsUnknown) {
  const auto result = resolve("no-such-host.invalid", 7, Deadline::after(Milliseconds(5000)));

  ASSERT_FALSE(result.isOk());
  EXPECT_NE(result.failure().reason(), Reason::USAGE);
  EXPECT_NE(result.failure().text(), "");
}

TEST(ResolveTest, LeavesOutRepetitionsAndKeepsTheOrder) {
  const auto call = [](const std::string&, std::vector<SocketAddress>& found) {
    for (const char* literal : {"10.0.0.2", "10.0.0.1", "10.0.0.2", "::1", "10.0.0.1"}) {
      found.push_back(SocketAddress::parse(literal, 0).value());
    }
    return std::string();
  };

  EXPECT_THAT(texts(detail::resolveWith(call, "name", 7, test::soon())),
              ElementsAre("10.0.0.2:7", "10.0.0.1:7", "[::1]:7"));
}

TEST(ResolveTest, DoesNotWaitForAHangingResolverBeyondTheDeadline) {
  static std::atomic<bool> released{false};
  static std::atomic<bool> ended{false};
  const auto call = [](const std::string&, std::vector<SocketAddress>&) {
    test::eventually([] { return released.load(); });
    ended = true;
    return std::string("too late");
  };
  const TimePoint start = systemClock().now();

  const auto result = detail::resolveWith(call, "name", 7, Deadline::after(Milliseconds(60)));

  EXPECT_GE(elapsedSince(start), Milliseconds(60));
  EXPECT_LT(elapsedSince(start), Milliseconds(560));
  ASSERT_FALSE(result.isOk());
  EXPECT_EQ(result.failure().reason(), Reason::TIMEOUT);
  EXPECT_THAT(result.failure().text(), HasSubstr("resolver"));
  // What was left behind ends by itself and touches nothing that is gone.
  released = true;
  EXPECT_TRUE(test::eventually([] { return ended.load(); }));
}

}  // namespace
}  // namespace unisono

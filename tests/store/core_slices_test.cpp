// Requests about very many keys at a server core: others are served in between.
#include <gmock/gmock.h>

#include "base/str.hpp"
#include "store/core_harness.hpp"

namespace unisono::tcp::test {
namespace {

constexpr std::size_t kSlice = 10;
constexpr std::size_t kLook = 50;
const std::string kPing = req(Query::PING).u32(0x01020304).bytes();
const std::string kEcho = "\x04\x03\x02\x01";

TEST(CoreLookTest, AThousandKeysThatAreThereAreReadInOneGo) {
  CoreHarness harness;
  harness.working = false;
  const ConnectionId one = harness.connect();
  std::vector<std::string> keys;
  for (int i = 0; i < 1000; ++i) {
    keys.push_back(str("/", i));
    harness.send(one, setOf(keys.back(), "v"));
  }
  EXPECT_EQ(harness.ask(one, ask(Query::MULTI_GET).keys(keys)).size(), 1 + 1000 * blob("v").size());
}

class CoreSlicesTest : public ::testing::Test {
 protected:
  CoreSlicesTest() {
    for (int i = 0; i < 100; ++i) {
      keys.push_back(str("/p/", 100 + i));
    }
  }
  void setAll() {
    for (const std::string& key : keys) {
      harness.send(other, setOf(key, "v"));
    }
    harness.pump();
    harness.working = false;
    harness.turn();
  }
  std::int64_t count() {
    const std::string reply = harness.ask(other, req(Query::NUM_KEYS));
    return ByteReader(reply).number<std::int64_t>().value_or(-1);
  }

  CoreHarness harness{StoreLimits{.slice = kSlice, .look = kLook}};
  const ConnectionId one = harness.connect();
  const ConnectionId other = harness.connect();
  std::vector<std::string> keys;
};

TEST_F(CoreSlicesTest, ADeletionLetsOthersInBetween) {
  setAll();
  harness.send(one, ask(Query::DELETE_PREFIX).blob("/p/"));
  for (std::int64_t left = 90; left > 0; left -= kSlice) {
    EXPECT_EQ(harness.take(one), "");
    EXPECT_EQ(count(), left);
    EXPECT_EQ(harness.turn(), left > 10);
  }
  EXPECT_EQ(harness.take(one), kZero + i64(100));
  EXPECT_EQ(count(), 0);
}

TEST_F(CoreSlicesTest, NothingOvertakesADeletionOnItsOwnConnection) {
  setAll();
  harness.send(one, ask(Query::DELETE_PREFIX).blob("/p/").bytes() +
                        req(Query::NUM_KEYS).bytes().substr(0, 1) +
                        req(Query::GET).blob(keys.back()).bytes().substr(0, 5));
  EXPECT_FALSE(harness.core.wantsRead(one));
  harness.send(one, req(Query::GET).blob(keys.back()).bytes().substr(5) + kPing);
  harness.send(other, setOf(keys.front(), "since"));
  while (harness.turn()) {
    EXPECT_EQ(harness.take(one), "");
  }
  EXPECT_EQ(harness.take(one), kZero + i64(100) + i64(1) + blob("") + kEcho);
  EXPECT_TRUE(harness.core.wantsRead(one));
  EXPECT_EQ(harness.core.partialBytes(), 0U);
  EXPECT_EQ(harness.ask(one, req(Query::GET).blob(keys.front())), blob("since"));
}

TEST_F(CoreSlicesTest, ADeletionGoesOnThoughItsClientHasGone) {
  setAll();
  harness.send(one, ask(Query::DELETE_PREFIX).blob("/p/").bytes() + setOf("/never", "").bytes());
  harness.disconnect(one);
  while (harness.turn()) {}
  EXPECT_EQ(count(), 0);
}

TEST_F(CoreSlicesTest, WhatIsLeftForLaterGetsAsMuchAsAllOthers) {
  setAll();
  harness.send(one, ask(Query::DELETE_PREFIX).blob("/p/"));
  std::string pings;
  for (int i = 0; i < 50; ++i) {
    pings += kPing;
  }
  harness.send(other, pings);
  EXPECT_EQ(harness.take(other).size(), 50 * kEcho.size());
  EXPECT_TRUE(harness.turn());
  EXPECT_NEAR(static_cast<double>(count()), 90 - 50, 5);
  EXPECT_TRUE(harness.turn());
  EXPECT_NEAR(static_cast<double>(count()), 40 - kSlice, 5) << "nobody else asked for much";
}

TEST_F(CoreSlicesTest, AWaitForManyKeysLetsOthersInBetween) {
  setAll();
  for (const RequestWriter& request : {waitOf(keys), ask(Query::WAIT).keys(keys)}) {
    harness.send(one, request);
    for (int turn = 0; turn < 9; ++turn) {
      ASSERT_TRUE(harness.turn());
      EXPECT_EQ(harness.take(one), "");
      harness.send(other, kPing);
      EXPECT_EQ(harness.take(other), kEcho);
    }
    EXPECT_TRUE(harness.turn());
    EXPECT_EQ(harness.take(one), kZero);
    while (harness.turn()) {}  // forgets what it waited for
  }
}

TEST_F(CoreSlicesTest, AsManyAsOneLookIsForAreAnsweredAtOnceWhenTheyAreThere) {
  setAll();
  const std::vector<std::string> some(keys.begin(), keys.begin() + kLook);
  std::string values = kZero;
  for (std::size_t i = 0; i < kLook; ++i) {
    values += blob("v");
  }
  EXPECT_EQ(harness.ask(one, ask(Query::MULTI_GET).keys(some)), values);
  EXPECT_EQ(harness.ask(one, ask(Query::WAIT).keys(some)), kZero);
  EXPECT_EQ(harness.ask(one, waitOf(some)), kZero);
  EXPECT_FALSE(harness.turn()) << "nothing is left to do";

  const std::vector<std::string> more(keys.begin(), keys.begin() + kLook + 1);
  EXPECT_EQ(harness.ask(one, ask(Query::MULTI_GET).keys(more)), "");
  while (harness.turn()) {}
  EXPECT_EQ(harness.take(one), values + blob("v"));
}

TEST_F(CoreSlicesTest, OneLookThatMissesAKeyLeavesTheRestToTheSlices) {
  setAll();
  std::vector<std::string> some(keys.begin(), keys.begin() + kLook - 1);
  some.emplace_back("/late");
  EXPECT_EQ(harness.ask(one, ask(Query::WAIT).keys(some)), "");
  EXPECT_TRUE(harness.turn());
  harness.send(other, setOf("/late", ""));
  EXPECT_EQ(harness.take(one), "") << "not all of them are linked";
  while (harness.turn()) {}
  EXPECT_EQ(harness.take(one), kZero);
}

TEST_F(CoreSlicesTest, AGetOfManyKeysReturnsTheirValuesOnceAllAreThere) {
  harness.working = false;
  harness.send(one, ask(Query::MULTI_GET).keys(keys));
  std::string expected = kZero;
  for (const std::string& key : keys) {
    harness.turn();
    EXPECT_EQ(harness.take(one), "");
    harness.send(other, setOf(key, "of " + key));
    expected += blob("of " + key);
  }
  while (harness.turn()) {}
  EXPECT_EQ(harness.take(one), expected);
}

TEST_F(CoreSlicesTest, AWaitForManyKeysCanBeGivenUpAtAnyTime) {
  setAll();
  for (int turns = 0; turns < 9; ++turns) {
    harness.send(one, waitOf(keys));
    for (int i = 0; i < turns; ++i) {
      harness.turn();
    }
    EXPECT_EQ(harness.ask(one, req(Query::CANCEL_WAIT)), kOne) << turns;
    while (harness.turn()) {}
    EXPECT_EQ(harness.take(one), "");
    EXPECT_EQ(harness.core.table().waitCount(), 0U);
  }
  harness.send(one, waitOf(keys));
  harness.turn();
  harness.disconnect(one);
  while (harness.turn()) {}
  harness.send(other, ask(Query::DELETE_PREFIX).blob("/p/"));
  while (harness.turn()) {}
  EXPECT_EQ(harness.core.table().contentBytes(), 0U);
}

}  // namespace
}  // namespace unisono::tcp::test

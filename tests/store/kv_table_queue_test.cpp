// Queues, and those who wait for their elements.
#include <gmock/gmock.h>

#include "store/kv_table_fixture.hpp"

namespace unisono {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsNull;

TEST_F(KvTableTest, AQueueIsPresentWhileItHoldsSomething) {
  const Names q = {"q"};
  EXPECT_FALSE(table.allPresent(q));
  push("q", "");

  EXPECT_TRUE(table.allPresent(q));
  EXPECT_FALSE(table.allHaveValues(q));
  EXPECT_EQ(table.size(), 0U);
  EXPECT_THAT(table.keys(), IsEmpty());
  EXPECT_THAT(table.find("q"), IsNull());

  EXPECT_EQ(table.pop("q"), "");
  EXPECT_FALSE(table.allPresent(q));
}

TEST_F(KvTableTest, AValueAndAQueueOfOneNameAreTwoThings) {
  set("n", "value");
  push("n", "element");

  EXPECT_TRUE(table.remove("n"));
  EXPECT_TRUE(table.allPresent(Names{"n"}));
  EXPECT_EQ(table.pop("n"), "element");
  EXPECT_EQ(table.pop("n"), std::nullopt);
  EXPECT_EQ(table.contentBytes(), 0U);
}

TEST_F(KvTableTest, AQueueGivesBackInOrderOfPush) {
  push("q", "1");
  push("q", "2");
  push("q", "2");

  EXPECT_EQ(table.queueLength("q"), 3U);
  EXPECT_EQ(table.pop("q"), "1");
  EXPECT_EQ(table.pop("q"), "2");
  EXPECT_EQ(table.queueLength("q"), 1U);
  EXPECT_EQ(table.pop("q"), "2");
  EXPECT_EQ(table.pop("q"), std::nullopt);
  EXPECT_EQ(table.queueLength("q"), 0U);
  EXPECT_EQ(table.pop("unknown"), std::nullopt);
}

TEST_F(KvTableTest, WhoWaitsForValuesSleepsThroughPushes) {
  ASSERT_FALSE(wait(1, {"n"}, WaitFor::VALUES));
  ASSERT_FALSE(wait(2, {"n"}, WaitFor::PRESENCE));

  push("n", "x");
  EXPECT_THAT(wakes(), ElementsAre("2"));
  EXPECT_FALSE(wait(3, {"n"}, WaitFor::VALUES));
  set("n", "v");
  EXPECT_THAT(wakes(), ElementsAre("1", "3"));
}

TEST_F(KvTableTest, AQueueThatWasEmptiedAgainDoesNotCount) {
  ASSERT_FALSE(wait(1, {"q", "k"}));
  push("q", "x");
  ASSERT_EQ(table.pop("q"), "x");
  set("k", "1");
  EXPECT_THAT(wakes(), IsEmpty());

  push("q", "y");

  EXPECT_THAT(wakes(), ElementsAre("1"));
}

TEST_F(KvTableTest, ANonEmptyQueueAndAMissingKeyEndWithTheKey) {
  push("q", "x");
  ASSERT_FALSE(wait(1, {"q", "k"}));

  set("k", "1");

  EXPECT_THAT(wakes(), ElementsAre("1"));
}

TEST_F(KvTableTest, AValueKeepsANamePresentWhenItsQueueRunsDry) {
  set("n", "v");
  push("n", "x");
  ASSERT_FALSE(wait(1, {"n", "k"}));

  ASSERT_EQ(table.pop("n"), "x");
  set("k", "1");

  EXPECT_THAT(wakes(), ElementsAre("1"));
}

TEST_F(KvTableTest, APushEndsOnlyTheOldestPoliteWaitAndAllOthers) {
  ASSERT_FALSE(wait(1, {"q"}));
  ASSERT_FALSE(waitPolitely(2, {"q"}));
  ASSERT_FALSE(waitPolitely(3, {"q"}));
  ASSERT_FALSE(wait(4, {"q"}));

  push("q", "x");

  EXPECT_THAT(wakes(), ElementsAre("1", "2@q", "4"));
  EXPECT_EQ(table.waitCount(), 1U);
}

TEST_F(KvTableTest, EachPushEndsTheNextPoliteWait) {
  for (WaitId id = 1; id <= 3; ++id) {
    ASSERT_FALSE(waitPolitely(id, {"q"}));
  }

  push("q", "x");
  push("q", "y");
  EXPECT_THAT(wakes(), ElementsAre("1@q", "2@q"));
  push("q", "z");
  EXPECT_THAT(wakes(), ElementsAre("3@q"));
}

TEST_F(KvTableTest, PassingOnEndsTheNextPoliteWaitWhileThereIsSomething) {
  for (WaitId id = 1; id <= 3; ++id) {
    ASSERT_FALSE(waitPolitely(id, {"q"}));
  }
  push("q", "x");
  ASSERT_THAT(wakes(), ElementsAre("1@q"));

  table.passOn("q");
  EXPECT_THAT(wakes(), ElementsAre("2@q"));
  ASSERT_EQ(table.pop("q"), "x");
  table.passOn("q");
  table.passOn("unknown");
  EXPECT_THAT(wakes(), IsEmpty());

  push("q", "y");
  EXPECT_THAT(wakes(), ElementsAre("3@q"));
}

TEST_F(KvTableTest, APopLeavesThoseWhoWereHeldBackAsleep) {
  ASSERT_FALSE(waitPolitely(1, {"q"}));
  ASSERT_FALSE(waitPolitely(2, {"q"}));
  push("q", "x");
  push("r", "other");
  ASSERT_THAT(wakes(), ElementsAre("1@q"));

  ASSERT_EQ(table.pop("q"), "x");
  EXPECT_THAT(wakes(), IsEmpty());
  push("q", "y");
  EXPECT_THAT(wakes(), ElementsAre("2@q"));
}

TEST_F(KvTableTest, AValueEndsAlsoThoseWhoWereHeldBack) {
  ASSERT_FALSE(waitPolitely(1, {"q"}));
  ASSERT_FALSE(waitPolitely(2, {"q"}));
  push("q", "x");
  ASSERT_THAT(wakes(), ElementsAre("1@q"));

  set("q", "v");

  EXPECT_THAT(wakes(), ElementsAre("2"));
}

TEST_F(KvTableTest, APoliteWaitForSeveralNamesIsHeldBackOnlyByItsLastQueue) {
  ASSERT_FALSE(waitPolitely(1, {"q", "k"}));
  ASSERT_FALSE(waitPolitely(2, {"q"}));
  push("q", "x");
  ASSERT_THAT(wakes(), ElementsAre("2@q"));  // 1 still misses k

  set("k", "1");

  EXPECT_THAT(wakes(), ElementsAre("1"));
}

TEST_F(KvTableTest, WaitingPopsAreServedInOrderWithExactlyWhatWasPushed) {
  EXPECT_EQ(popOrWait(2, "q"), std::nullopt);
  EXPECT_EQ(popOrWait(1, "q"), std::nullopt);
  EXPECT_EQ(popOrWait(3, "q"), std::nullopt);

  push("q", "first");
  push("q", "");
  EXPECT_THAT(wakes(), ElementsAre("2:first", "1:"));
  EXPECT_EQ(table.queueLength("q"), 0U);

  push("q", "third");
  push("q", "fourth");
  EXPECT_THAT(wakes(), ElementsAre("3:third"));
  EXPECT_EQ(popOrWait(2, "q"), "fourth");
  EXPECT_EQ(table.waitCount(), 0U);
}

TEST_F(KvTableTest, AnElementHandedToAWaitingPopWasNeverPresent) {
  ASSERT_FALSE(wait(1, {"q"}));
  ASSERT_EQ(popOrWait(2, "q"), std::nullopt);

  push("q", "x");

  EXPECT_THAT(wakes(), ElementsAre("2:x"));
  EXPECT_EQ(table.waitCount(), 1U);
}

TEST_F(KvTableTest, AValueIsNotWhatAWaitingPopWaitsFor) {
  set("q", "v");
  EXPECT_EQ(popOrWait(1, "q"), std::nullopt);
  set("q", "w");

  EXPECT_THAT(wakes(), IsEmpty());
  EXPECT_EQ(table.waitCount(), 1U);
}

}  // namespace
}  // namespace unisono

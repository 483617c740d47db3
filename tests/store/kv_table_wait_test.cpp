// Waits for keys: when they end, for whom, and in which order.
#include <gmock/gmock.h>

#include "base/str.hpp"
#include "store/kv_table_fixture.hpp"

namespace unisono {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(KvTableTest, AWaitEndsWithTheLastMissingKey) {
  set("a", "1");

  EXPECT_FALSE(wait(7, {"a", "b", "c"}));
  set("b", "2");
  EXPECT_THAT(wakes(), IsEmpty());
  set("c", "3");
  EXPECT_THAT(wakes(), ElementsAre("7"));
  EXPECT_EQ(table.waitCount(), 0U);
}

TEST_F(KvTableTest, AWaitForNothingOrForWhatIsThereNeverSleeps) {
  set("a", "1");
  push("q", "x");

  EXPECT_TRUE(wait(1, {}));
  EXPECT_TRUE(wait(1, {}, WaitFor::VALUES));
  EXPECT_TRUE(wait(1, {"a", "q", "a"}));
  EXPECT_TRUE(waitPolitely(1, {"q"}));
  EXPECT_EQ(table.waitCount(), 0U);
}

TEST_F(KvTableTest, AKeyThatWasSetAndDeletedAgainDoesNotCount) {
  ASSERT_FALSE(wait(1, {"a", "b"}));

  set("a", "1");
  ASSERT_TRUE(table.remove("a"));
  set("b", "1");
  EXPECT_THAT(wakes(), IsEmpty());

  set("a", "1");
  EXPECT_THAT(wakes(), ElementsAre("1"));
}

TEST_F(KvTableTest, AKeyThatWasThereFromTheStartCountsOnlyWhileItIsThere) {
  set("a", "1");
  ASSERT_FALSE(wait(1, {"a", "b"}));

  ASSERT_TRUE(table.remove("a"));
  set("b", "1");
  EXPECT_THAT(wakes(), IsEmpty());
  set("b", "2");  // a second time counts once
  EXPECT_THAT(wakes(), IsEmpty());
  set("a", "2");
  EXPECT_THAT(wakes(), ElementsAre("1"));
}

TEST_F(KvTableTest, ANameThatIsListedTwiceCountsOnce) {
  ASSERT_FALSE(wait(1, {"a", "b", "a", "a", "b"}));

  set("a", "1");
  EXPECT_THAT(wakes(), IsEmpty());
  set("b", "1");
  EXPECT_THAT(wakes(), ElementsAre("1"));
  EXPECT_EQ(table.waitCount(), 0U);
}

TEST_F(KvTableTest, AWaitEndsOnce) {
  ASSERT_FALSE(wait(1, {"a"}));
  set("a", "1");
  set("a", "2");
  table.remove("a");
  set("a", "3");

  EXPECT_THAT(wakes(), ElementsAre("1"));
}

TEST_F(KvTableTest, EveryWayToSetAKeyEndsItsWaits) {
  for (WaitId id = 1; id <= 5; ++id) {
    ASSERT_FALSE(wait(id, {str("k", id)}));
  }

  set("k1", "");
  ASSERT_TRUE(table.append("k2", "x").isOk());
  ASSERT_TRUE(table.add("k3", 1).isOk());
  ASSERT_TRUE(table.compareSet("k4", "", "x").isOk());
  ASSERT_TRUE(table.multiSet(Names{"k5"}, Names{"x"}).isOk());

  EXPECT_THAT(wakes(), ElementsAre("1", "2", "3", "4", "5"));
}

TEST_F(KvTableTest, AllWhoWaitForAKeyAreWokenOldestFirst) {
  for (const WaitId id : {3U, 1U, 2U}) {
    ASSERT_FALSE(wait(id, {"a"}, id == 1 ? WaitFor::VALUES : WaitFor::PRESENCE_POLITELY));
  }

  set("a", "1");

  EXPECT_THAT(wakes(), ElementsAre("3", "1", "2"));
}

TEST_F(KvTableTest, ANewWaitOfTheSameWaiterReplacesTheOldOne) {
  ASSERT_FALSE(wait(1, {"a", "shared"}));
  ASSERT_FALSE(wait(1, {"b", "shared"}));
  EXPECT_EQ(table.waitCount(), 1U);

  set("a", "1");
  set("shared", "1");
  EXPECT_THAT(wakes(), IsEmpty());
  set("b", "1");
  EXPECT_THAT(wakes(), ElementsAre("1"));
}

TEST_F(KvTableTest, AWaitThatIsSatisfiedAtOnceAlsoReplacesTheOldOne) {
  set("b", "1");
  ASSERT_FALSE(wait(1, {"a"}));
  ASSERT_TRUE(wait(1, {"b"}));

  set("a", "1");

  EXPECT_THAT(wakes(), IsEmpty());
}

TEST_F(KvTableTest, ACanceledWaitIsNotWoken) {
  ASSERT_FALSE(wait(1, {"a"}));
  ASSERT_FALSE(wait(2, {"a"}));
  ASSERT_FALSE(popOrWait(3, "q"));
  table.cancelWait(1);
  table.cancelWait(3);
  table.cancelWait(99);

  set("a", "1");
  push("q", "x");

  EXPECT_THAT(wakes(), ElementsAre("2"));
  EXPECT_EQ(table.pop("q"), "x");
}

}  // namespace
}  // namespace unisono

// Barriers: who arrives, who waits, and what releases them.
#include <gmock/gmock.h>
#include <limits>

#include "base/str.hpp"
#include "store/kv_table_fixture.hpp"

namespace unisono {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointee;

TEST_F(KvTableTest, ABarrierEndsWithItsLastArrival) {
  EXPECT_FALSE(arrive(1, "b", 3));
  EXPECT_FALSE(arrive(2, "b", 3));
  EXPECT_THAT(wakes(), IsEmpty());

  EXPECT_TRUE(arrive(3, "b", 3));

  EXPECT_THAT(wakes(), ElementsAre("1", "2"));
  EXPECT_THAT(table.find("b"), Pointee(std::string("3")));
  EXPECT_EQ(table.waitCount(), 0U);
}

TEST_F(KvTableTest, ABarrierOfOneOrFewerNeverSleeps) {
  EXPECT_TRUE(arrive(1, "one", 1));
  EXPECT_TRUE(arrive(1, "none", 0));
  EXPECT_TRUE(arrive(1, "negative", -5));
  EXPECT_TRUE(arrive(1, "least", std::numeric_limits<std::int64_t>::min()));
  EXPECT_EQ(table.waitCount(), 0U);
}

TEST_F(KvTableTest, ABarrierThatIsCompleteLetsLaterArrivalsPass) {
  ASSERT_FALSE(arrive(1, "b", 2));
  ASSERT_TRUE(arrive(2, "b", 2));
  EXPECT_TRUE(arrive(3, "b", 2));
}

TEST_F(KvTableTest, WhoArrivedAndGaveUpStillCounts) {
  ASSERT_FALSE(arrive(1, "b", 2));
  table.cancelWait(1);

  EXPECT_TRUE(arrive(2, "b", 2));
  EXPECT_THAT(wakes(), IsEmpty());
}

TEST_F(KvTableTest, DeletingABarrierKeyRestartsItsCountForThoseWhoWait) {
  ASSERT_FALSE(arrive(1, "b", 2));
  ASSERT_TRUE(table.remove("b"));

  EXPECT_FALSE(arrive(2, "b", 2));
  EXPECT_TRUE(arrive(3, "b", 2));
  EXPECT_THAT(wakes(), ElementsAre("1", "2"));
}

TEST_F(KvTableTest, OnlyArrivalsReleaseABarrier) {
  ASSERT_FALSE(arrive(1, "b", 3));

  set("b", "2");
  ASSERT_TRUE(table.append("b", "").isOk());
  ASSERT_EQ(table.add("b", 5).value(), 7);
  push("b", "x");
  table.passOn("b");
  EXPECT_THAT(wakes(), IsEmpty());

  EXPECT_TRUE(arrive(2, "b", 3));
  EXPECT_THAT(wakes(), ElementsAre("1"));
}

TEST_F(KvTableTest, EachArrivalIsReleasedByItsOwnCount) {
  EXPECT_FALSE(arrive(1, "b", 4));
  EXPECT_FALSE(arrive(2, "b", 3));
  EXPECT_FALSE(arrive(3, "b", 4));  // the third: what 2 waits for
  EXPECT_THAT(wakes(), ElementsAre("2"));
  EXPECT_TRUE(arrive(4, "b", 2));
  EXPECT_THAT(wakes(), ElementsAre("1", "3"));
}

TEST_F(KvTableTest, AnArrivalMakesTheKeyPresentForThoseWhoWaitForIt) {
  ASSERT_FALSE(wait(1, {"b"}, WaitFor::VALUES));
  ASSERT_FALSE(arrive(2, "b", 2));

  EXPECT_THAT(wakes(), ElementsAre("1"));
  EXPECT_TRUE(table.allPresent(Names{"b"}));
}

TEST_F(KvTableTest, ABarrierOnAKeyThatIsNoNumberIsRefusedAndNobodyWaits) {
  set("b", "text");

  const Result<bool> complete = table.arrive(1, "b", 2);

  EXPECT_EQ(complete.failure().reason(), Reason::USAGE);
  EXPECT_THAT(complete.failure().text(), HasSubstr("'text'"));
  EXPECT_EQ(table.waitCount(), 0U);
  EXPECT_THAT(table.find("b"), Pointee(std::string("text")));
}

}  // namespace
}  // namespace unisono

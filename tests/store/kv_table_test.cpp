#include "store/kv_table.hpp"

#include <gmock/gmock.h>
#include <limits>
#include <numeric>

#include "base/str.hpp"

namespace unisono {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsNull;
using ::testing::Pointee;

using Names = std::vector<std::string_view>;
using Outcome = KvTable::Compared::Outcome;

/// A table whose refusals fail the test, and whose wakes read like a list.
class KvTableTest : public testing::Test {
 protected:
  void set(std::string_view key, std::string_view value) {
    ASSERT_TRUE(table.set(key, value).isOk());
  }
  void push(std::string_view name, std::string_view element) {
    ASSERT_TRUE(table.push(name, element).isOk());
  }
  bool wait(WaitId id, const Names& names, WaitFor what = WaitFor::PRESENCE) {
    const Result<bool> satisfied = table.wait(id, names, what);
    EXPECT_TRUE(satisfied.isOk());
    return satisfied.isOk() && satisfied.value();
  }
  bool waitPolitely(WaitId id, const Names& names) {
    return wait(id, names, WaitFor::PRESENCE_POLITELY);
  }
  std::optional<std::string> popOrWait(WaitId id, std::string_view name) {
    return table.popOrWait(id, name).value();
  }
  bool arrive(WaitId id, std::string_view key, std::int64_t worldSize) {
    const Result<bool> complete = table.arrive(id, key, worldSize);
    EXPECT_TRUE(complete.isOk());
    return complete.isOk() && complete.value();
  }

  /// "3" for a plain wake, "3:x" with element x, "3@q" when a push to q ended a polite wait.
  std::vector<std::string> wakes() {
    std::vector<std::string> texts;
    for (const Wake& wake : table.takeWakes()) {
      texts.push_back(str(wake.id, wake.element ? ":" : "", wake.element.value_or(""),
                          wake.queue ? "@" : "", wake.queue.value_or("")));
    }
    return texts;
  }

  KvTable table;
};

TEST_F(KvTableTest, GivesBackWhatWasSetAndNothingElse) {
  set("a", "1");
  set("empty", "");
  set("a", "2");

  EXPECT_THAT(table.find("a"), Pointee(std::string("2")));
  EXPECT_THAT(table.find("empty"), Pointee(std::string()));
  EXPECT_THAT(table.find("b"), IsNull());
  EXPECT_EQ(table.size(), 2U);
  EXPECT_THAT(table.keys(), ElementsAre("a", "empty"));
}

TEST_F(KvTableTest, KeysAndValuesMayHoldAnyByte) {
  const std::string key("\0/\xff\n", 4);
  const std::string value("\0\0", 2);

  set(key, value);
  set("", "the empty name is a name");

  EXPECT_THAT(table.find(key), Pointee(value));
  EXPECT_THAT(table.find(""), Pointee(std::string("the empty name is a name")));
  EXPECT_THAT(table.find(std::string("\0", 1)), IsNull());
}

TEST_F(KvTableTest, AppendMakesAKeyOrLengthensIt) {
  ASSERT_TRUE(table.append("a", "x").isOk());
  ASSERT_TRUE(table.append("a", "").isOk());
  ASSERT_TRUE(table.append("a", "x").isOk());

  EXPECT_THAT(table.find("a"), Pointee(std::string("xx")));
  EXPECT_EQ(table.size(), 1U);
}

TEST_F(KvTableTest, RemoveSaysWhetherThereWasAValue) {
  set("a", "1");
  push("q", "x");
  ASSERT_FALSE(wait(1, {"w"}));

  EXPECT_TRUE(table.remove("a"));
  EXPECT_FALSE(table.remove("a"));
  EXPECT_FALSE(table.remove("q"));
  EXPECT_FALSE(table.remove("w"));
  EXPECT_EQ(table.queueLength("q"), 1U);
  EXPECT_EQ(table.waitCount(), 1U);
}

TEST_F(KvTableTest, RemovePrefixTakesValuesAndLeavesQueuesAndWaits) {
  for (const char* key : {"a/1", "a/2", "a", "b/1"}) {
    set(key, "x");
  }
  push("a/q", "x");
  ASSERT_FALSE(wait(1, {"a/w"}));

  EXPECT_EQ(table.removePrefix("a/"), 2);
  EXPECT_EQ(table.removePrefix("a/"), 0);
  EXPECT_THAT(table.keys(), ElementsAre("a", "b/1"));
  EXPECT_EQ(table.queueLength("a/q"), 1U);
  EXPECT_EQ(table.removePrefix(""), 2);
  set("a/w", "");
  EXPECT_THAT(wakes(), ElementsAre("1"));
}

TEST_F(KvTableTest, AddCountsInDecimalText) {
  EXPECT_EQ(table.add("n", 5).value(), 5);
  EXPECT_EQ(table.add("n", -7).value(), -2);
  EXPECT_THAT(table.find("n"), Pointee(std::string("-2")));

  set("n", " +41abc");
  EXPECT_EQ(table.add("n", 1).value(), 42);
  set("n", "");
  EXPECT_EQ(table.add("n", 3).value(), 3);
}

TEST_F(KvTableTest, AddThatIsRefusedChangesNothing) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  ASSERT_EQ(table.add("n", kMax).value(), kMax);
  set("t", "text");
  ASSERT_FALSE(wait(1, {"n", "x"}));

  EXPECT_EQ(table.add("n", 1).failure().reason(), Reason::USAGE);
  EXPECT_EQ(table.add("t", 1).failure().reason(), Reason::USAGE);

  EXPECT_THAT(table.find("n"), Pointee(str(kMax)));
  EXPECT_THAT(table.find("t"), Pointee(std::string("text")));
  EXPECT_THAT(wakes(), IsEmpty());
}

TEST_F(KvTableTest, CompareSetStoresWhenTheValueIsAsExpected) {
  ASSERT_FALSE(wait(1, {"k"}));

  Result<KvTable::Compared> first = table.compareSet("k", "", "a");
  EXPECT_EQ(first.value().outcome, Outcome::STORED);
  EXPECT_EQ(first.value().value, "a");
  EXPECT_THAT(wakes(), ElementsAre("1"));

  Result<KvTable::Compared> second = table.compareSet("k", "a", "");
  EXPECT_EQ(second.value().outcome, Outcome::STORED);
  EXPECT_EQ(second.value().value, "");

  Result<KvTable::Compared> third = table.compareSet("k", "", "z");  // an empty value is "" too
  EXPECT_EQ(third.value().outcome, Outcome::STORED);
  EXPECT_THAT(table.find("k"), Pointee(std::string("z")));
}

TEST_F(KvTableTest, CompareSetThatStoresNothingWakesNobody) {
  set("k", "old");
  ASSERT_FALSE(wait(1, {"missing"}));
  ASSERT_FALSE(wait(2, {"k", "missing"}));

  const Result<KvTable::Compared> missing = table.compareSet("missing", "x", "y");
  EXPECT_EQ(missing.value().outcome, Outcome::MISSING);
  EXPECT_EQ(missing.value().value, "x");

  const Result<KvTable::Compared> different = table.compareSet("k", "x", "y");
  EXPECT_EQ(different.value().outcome, Outcome::DIFFERENT);
  EXPECT_EQ(different.value().value, "old");

  EXPECT_THAT(wakes(), IsEmpty());
  EXPECT_THAT(table.find("missing"), IsNull());
  EXPECT_EQ(table.size(), 1U);
}

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

TEST_F(KvTableTest, RemembersNothingOfWhatIsGone) {
  set("a", std::string(1000, 'x'));
  push("q", "1");
  push("q", "2");
  ASSERT_FALSE(wait(1, {"a", "w", "q", "v"}));
  ASSERT_FALSE(waitPolitely(2, {"w"}));
  ASSERT_EQ(popOrWait(3, "p"), std::nullopt);
  ASSERT_FALSE(arrive(4, "b", 2));
  EXPECT_GT(table.contentBytes(), 1000U);

  for (WaitId id = 1; id <= 4; ++id) {
    table.cancelWait(id);
  }
  ASSERT_TRUE(table.remove("a"));
  ASSERT_TRUE(table.remove("b"));
  ASSERT_TRUE(table.pop("q"));
  ASSERT_TRUE(table.pop("q"));

  EXPECT_EQ(table.contentBytes(), 0U);
  EXPECT_EQ(table.waitCount(), 0U);
  EXPECT_EQ(table.size(), 0U);
}

TEST_F(KvTableTest, EndingAWaitOfManyNamesLeavesNoTrace) {
  std::vector<std::string> names(1000);
  std::generate(names.begin(), names.end(), [n = 0]() mutable { return str("name", n++); });
  const Names views(names.begin(), names.end());
  ASSERT_FALSE(wait(1, views));
  ASSERT_FALSE(wait(2, views, WaitFor::VALUES));

  for (const std::string& name : names) {
    set(name, "");
  }
  EXPECT_THAT(wakes(), ElementsAre("1", "2"));
  EXPECT_EQ(table.removePrefix("name"), 1000);

  EXPECT_EQ(table.contentBytes(), 0U);
}

}  // namespace
}  // namespace unisono

// Values: what was set, added to, compared and removed, and what is left of it.
#include <gmock/gmock.h>
#include <limits>

#include "base/str.hpp"
#include "store/kv_table_fixture.hpp"

namespace unisono {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsNull;
using ::testing::Pointee;

using Outcome = KvTable::Compared::Outcome;

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

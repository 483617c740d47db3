// What KvTable refuses, and that a refusal changes nothing.
#include <gmock/gmock.h>

#include "base/str.hpp"
#include "store/kv_table.hpp"
#include "support/memory.hpp"

namespace unisono {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsNull;
using ::testing::Pointee;

using Names = std::vector<std::string_view>;

/// What a table counts for what `fill` puts into it.
template <typename Fill>
std::uint64_t bytesOf(Fill fill) {
  KvTable table;
  fill(table);
  return table.contentBytes();
}

std::uint64_t bytesOfOne(std::string_view key, std::string_view value) {
  return bytesOf([&](KvTable& table) { EXPECT_TRUE(table.set(key, value).isOk()); });
}

void expectLimit(const Status& status, std::string_view named) {
  ASSERT_FALSE(status.isOk());
  EXPECT_EQ(status.reason(), Reason::LIMIT);
  EXPECT_THAT(status.text(), HasSubstr(named));
}

TEST(KvTableLimitsTest, ContentsMayReachTheLimitAndNotPassIt) {
  const std::uint64_t one = bytesOfOne("a", "12345");
  KvTable table({.contentBytes = 2 * one});
  ASSERT_TRUE(table.set("a", "12345").isOk());
  ASSERT_TRUE(table.set("b", "12345").isOk());
  EXPECT_EQ(table.contentBytes(), 2 * one);

  expectLimit(table.set("c", ""), "full");
  expectLimit(table.set("a", "123456"), "full");
  expectLimit(table.append("a", "6"), "full");
  expectLimit(table.push("q", ""), "full");
  expectLimit(table.compareSet("a", "12345", "123456").failure(), "full");
  expectLimit(table.add("n", 1).failure(), "full");

  EXPECT_EQ(table.contentBytes(), 2 * one);
  EXPECT_EQ(table.size(), 2U);
  EXPECT_THAT(table.find("a"), Pointee(std::string("12345")));
  EXPECT_THAT(table.find("n"), IsNull());
  EXPECT_EQ(table.queueLength("q"), 0U);
}

TEST(KvTableLimitsTest, AFullTableCanBeReadAndMadeSmaller) {
  const std::uint64_t one = bytesOfOne("a", "12345");
  KvTable table({.contentBytes = one});
  ASSERT_TRUE(table.set("a", "12345").isOk());

  EXPECT_TRUE(table.set("a", "54321").isOk());
  EXPECT_TRUE(table.wait(1, Names{"a"}, WaitFor::VALUES).value());
  EXPECT_TRUE(table.append("a", "").isOk());
  EXPECT_TRUE(table.compareSet("a", "54321", "5").isOk());
  EXPECT_TRUE(table.append("a", "4321").isOk());
  EXPECT_TRUE(table.remove("a"));
  EXPECT_TRUE(table.set("b", "12345").isOk());
}

TEST(KvTableLimitsTest, KeysMayReachTheLimitAndNotPassIt) {
  KvTable table({.keys = 2});
  ASSERT_TRUE(table.set("a", "").isOk());
  ASSERT_TRUE(table.push("q", "").isOk());

  expectLimit(table.set("b", ""), "2 keys");
  expectLimit(table.push("r", ""), "2 keys");
  expectLimit(table.popOrWait(1, "r").failure(), "2 keys");
  expectLimit(table.wait(1, Names{"r"}, WaitFor::PRESENCE).failure(), "2 keys");
  EXPECT_TRUE(table.push("a", "x").isOk());
  EXPECT_TRUE(table.set("q", "x").isOk());
  EXPECT_TRUE(table.remove("a"));
  EXPECT_TRUE(table.pop("a"));
  EXPECT_TRUE(table.set("b", "").isOk());
}

TEST(KvTableLimitsTest, NamesThatAreKnownOrListedTwiceAreNotNewKeys) {
  KvTable table({.keys = 3});
  ASSERT_TRUE(table.set("a", "").isOk());
  ASSERT_TRUE(table.set("b", "").isOk());

  EXPECT_FALSE(table.wait(1, Names{"a", "b", "c", "c", "a"}, WaitFor::PRESENCE).value());
  EXPECT_FALSE(table.wait(2, Names{"c", "a", "b"}, WaitFor::VALUES).value());
  EXPECT_TRUE(table.multiSet(Names{"a", "b", "c", "a"}, Names{"1", "2", "3", "4"}).isOk());
}

TEST(KvTableLimitsTest, ValuesMayReachTheLimitAndNotPassIt) {
  KvTable table({.valueBytes = 4});

  EXPECT_TRUE(table.set("a", "1234").isOk());
  EXPECT_TRUE(table.push("q", "1234").isOk());
  EXPECT_TRUE(table.append("b", "12").isOk());
  EXPECT_TRUE(table.append("b", "34").isOk());
  expectLimit(table.set("a", "12345"), "5 bytes; the limit is 4");
  expectLimit(table.push("q", "12345"), "the limit is 4");
  expectLimit(table.append("b", "5"), "5 bytes; the limit is 4");
  expectLimit(table.compareSet("a", "1234", "12345").failure(), "the limit is 4");
  EXPECT_EQ(table.queueLength("q"), 1U);
  EXPECT_THAT(table.find("b"), Pointee(std::string("1234")));
}

TEST(KvTableLimitsTest, QueuesMayReachTheLimitAndNotPassIt) {
  KvTable table({.queueLength = 2});
  ASSERT_TRUE(table.push("q", "1").isOk());
  ASSERT_TRUE(table.push("q", "2").isOk());

  expectLimit(table.push("q", "3"), "2 elements");
  EXPECT_TRUE(table.push("r", "1").isOk());
  EXPECT_EQ(table.pop("q"), "1");
  EXPECT_TRUE(table.push("q", "3").isOk());
}

TEST(KvTableLimitsTest, AMultiSetThatDoesNotFitStoresNothingAndWakesNobody) {
  KvTable table({.valueBytes = 4, .keys = 3});
  ASSERT_FALSE(table.wait(1, Names{"a"}, WaitFor::PRESENCE).value());
  const std::uint64_t before = table.contentBytes();

  expectLimit(table.multiSet(Names{"a", "b"}, Names{"1", "12345"}), "the limit is 4");
  expectLimit(table.multiSet(Names{"a", "b", "c", "d"}, Names{"1", "2", "3", "4"}), "3 keys");

  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(table.contentBytes(), before);
  EXPECT_THAT(table.takeWakes(), IsEmpty());
  EXPECT_TRUE(table.multiSet(Names{"a", "b", "c"}, Names{"1", "2", "3"}).isOk());
}

TEST(KvTableLimitsTest, AMultiSetIsWeighedAsAWhole) {
  const std::uint64_t one = bytesOfOne("a", "12345");
  KvTable table({.contentBytes = 2 * one});

  expectLimit(table.multiSet(Names{"a", "b", "c"}, Names{"12345", "12345", ""}), "full");
  EXPECT_EQ(table.contentBytes(), 0U);
  EXPECT_TRUE(table.multiSet(Names{"a", "b"}, Names{"12345", "12345"}).isOk());
}

TEST(KvTableLimitsTest, AQueueIsWeighedAlsoWhenItsNameHasALargeValue) {
  const std::string large(1000, 'x');
  KvTable table({.contentBytes = bytesOfOne("n", large) + 500});
  ASSERT_TRUE(table.set("n", large).isOk());

  expectLimit(table.push("n", large), "full");
  EXPECT_EQ(table.queueLength("n"), 0U);
}

TEST(KvTableLimitsTest, AShortValueKeepsNothingOfALongOne) {
  KvTable table;
  const std::size_t before = test::liveBytes();

  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(table.set(str(i), std::string(100'000, 'x')).isOk());
    ASSERT_TRUE(table.set(str(i), "x").isOk());
  }

  EXPECT_LT(test::liveBytes() - before, 100'000U);
}

TEST(KvTableLimitsTest, EmptyElementsAreNotFree) {
  KvTable table({.contentBytes = 100'000});

  std::size_t pushed = 0;
  while (pushed < 10'000 && table.push("q", "").isOk()) {
    ++pushed;
  }

  EXPECT_LT(pushed, 10'000U);
  EXPECT_LE(table.contentBytes(), 100'000U);
  while (table.pop("q")) {}
  EXPECT_EQ(table.contentBytes(), 0U);
}

TEST(KvTableLimitsTest, WaitsAreNotFreeEvenOnNamesThatOthersWaitFor) {
  KvTable table({.contentBytes = 100'000});
  std::vector<std::string> names(100);
  std::generate(names.begin(), names.end(), [n = 0]() mutable { return str(n++); });
  const Names views(names.begin(), names.end());

  WaitId waits = 0;
  while (waits < 1000 && table.wait(waits, views, WaitFor::VALUES).isOk()) {
    ++waits;
  }

  EXPECT_GT(waits, 1U);
  EXPECT_LT(waits, 1000U);
  EXPECT_EQ(table.waitCount(), waits);
  EXPECT_LE(table.contentBytes(), 112'500U);
  for (WaitId id = 0; id < waits; ++id) {
    table.cancelWait(id);
  }
  EXPECT_EQ(table.contentBytes(), 0U);
}

TEST(KvTableLimitsTest, PopsAndBarriersThatWaitAreNotFreeEither) {
  KvTable table({.contentBytes = 10'000});

  WaitId waits = 0;
  while (waits < 1000 && table.popOrWait(waits, "q").isOk() &&
         table.arrive(1000 + waits, "b", 1'000'000).isOk()) {
    ++waits;
  }

  EXPECT_GT(waits, 1U);
  EXPECT_LT(waits, 1000U);
  EXPECT_LE(table.contentBytes(), 10'000U);
}

TEST(KvTableLimitsTest, AFullTableCanStillBeWaitedOn) {
  KvTable table({.contentBytes = 20'000, .keys = 50});
  int keys = 0;
  while (table.set(std::to_string(keys), "v").isOk()) {
    ++keys;
  }
  ASSERT_EQ(keys, 50);
  ASSERT_FALSE(table.append("0", std::string(20'000, 'x')).isOk());
  ASSERT_TRUE(table.set("0", std::string(20'000 - table.contentBytes(), 'x')).isOk());

  EXPECT_FALSE(table.wait(1, Names{"a", "b"}, WaitFor::PRESENCE).value());
  EXPECT_FALSE(table.popOrWait(2, "q").value().has_value());

  EXPECT_EQ(table.waitCount(), 2U);
  expectLimit(table.set("c", ""), "full");
}

TEST(KvTableLimitsTest, ARefusedWaitLeavesNothingBehind) {
  KvTable table({.contentBytes = 300, .keys = 2});

  expectLimit(table.wait(1, Names{"a", "b", "c"}, WaitFor::PRESENCE).failure(), "full");
  expectLimit(table.popOrWait(1, std::string(300, 'x')).failure(), "full");

  EXPECT_EQ(table.contentBytes(), 0U);
  EXPECT_EQ(table.waitCount(), 0U);
}

TEST(KvTableLimitsTest, ARefusedArrivalIsNotCounted) {
  KvTable table({.contentBytes = bytesOfOne("b", "1")});
  ASSERT_TRUE(table.set("b", "1").isOk());

  expectLimit(table.arrive(1, "b", 3).failure(), "full");
  EXPECT_THAT(table.find("b"), Pointee(std::string("1")));
  EXPECT_EQ(table.waitCount(), 0U);
  EXPECT_TRUE(table.arrive(1, "b", 2).value());  // nobody has to wait: nothing to be remembered
}

}  // namespace
}  // namespace unisono

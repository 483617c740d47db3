// What a KvTable does a slice at a time, counted in names that it looks at.
#include <algorithm>
#include <gmock/gmock.h>
#include <random>
#include <set>

#include "store/kv_table_fixture.hpp"

namespace unisono {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t kSlice = 10;

class KvTableSlicesTest : public testing::Test {
 protected:
  static std::string name(int number) { return str("/p/", 1000 + number); }

  void setMany(int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(table.set(name(i), "v").isOk());
    }
  }
  static std::vector<std::string> many(int count) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) {
      names.push_back(name(i));
    }
    return names;
  }
  void beginWait(WaitId id, const std::vector<std::string>& names,
                 WaitFor what = WaitFor::PRESENCE) {
    const Names views(names.begin(), names.end());
    ASSERT_TRUE(table.beginWait(id, views, what).isOk());
  }
  void workAll() {
    while (table.anyWork()) {
      table.work(kSlice);
    }
  }
  std::vector<WaitId> woken() {
    std::vector<WaitId> ids;
    for (const Wake& wake : table.takeWakes()) {
      ids.push_back(wake.id);
    }
    return ids;
  }

  KvTable table{StoreLimits{.slice = kSlice}};
};

TEST_F(KvTableSlicesTest, ARemovalOfFewKeysIsDoneAtOnce) {
  setMany(9);
  EXPECT_EQ(table.beginRemoval(1, "/p/"), 9);
  EXPECT_FALSE(table.anyWork());
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(table.contentBytes(), 0U);
}

TEST_F(KvTableSlicesTest, ARemovalLooksAtNoMoreKeysThanItIsAllowed) {
  setMany(100);
  ASSERT_TRUE(table.set("/q", "").isOk());
  ASSERT_EQ(table.beginRemoval(1, "/p/"), std::nullopt);

  for (std::size_t left = 100 - kSlice; left > 0; left -= kSlice) {
    ASSERT_EQ(table.size(), left + 1);
    ASSERT_THAT(woken(), IsEmpty());
    ASSERT_EQ(table.work(kSlice), kSlice);
  }

  const std::vector<Wake> wakes = table.takeWakes();
  ASSERT_EQ(wakes.size(), 1U);
  EXPECT_EQ(wakes[0].id, 1U);
  EXPECT_EQ(wakes[0].removed, 100);
  EXPECT_FALSE(table.anyWork());
  EXPECT_EQ(table.size(), 1U);
}

TEST_F(KvTableSlicesTest, ARemovalTakesTheKeysThatWereThereWhenItBegan) {
  setMany(50);
  ASSERT_EQ(table.beginRemoval(1, "/p/"), std::nullopt);
  ASSERT_EQ(table.find(name(0)), nullptr);
  ASSERT_TRUE(table.set(name(0), "again").isOk());    // where it has been
  ASSERT_TRUE(table.set(name(30) + "x", "").isOk());  // where it will come
  ASSERT_TRUE(table.set("/p/9", "").isOk());          // behind the last
  ASSERT_TRUE(table.set(name(40), "other").isOk());   // has been there all the time
  ASSERT_TRUE(table.remove(name(41)));                // somebody else's

  workAll();

  EXPECT_THAT(table.keys(), ElementsAre(name(0), name(30) + "x", "/p/9"));
  EXPECT_EQ(table.takeWakes().front().removed, 49);
}

TEST_F(KvTableSlicesTest, ARemovalEndsHoweverFastOthersSet) {
  KvTable small({.keys = 300, .slice = kSlice});
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(small.set(name(i), "").isOk());
  }
  ASSERT_EQ(small.beginRemoval(1, "/p/"), std::nullopt);
  std::size_t looks = 0;
  for (int set = 0; small.anyWork(); looks += small.work(kSlice)) {
    for (int i = 0; i < 30; ++i) {
      static_cast<void>(small.set(str("/p/1099/", 10'000 + set++), ""));
    }
  }
  EXPECT_LE(looks, 400U);
  EXPECT_EQ(small.takeWakes().front().removed, 100);
}

TEST_F(KvTableSlicesTest, AWaitLooksAtNoMoreNamesThanItIsAllowed) {
  setMany(100);
  beginWait(1, many(100));
  for (int i = 0; i < 10; ++i) {
    ASSERT_THAT(woken(), IsEmpty());
    ASSERT_EQ(table.work(kSlice), kSlice);
  }
  EXPECT_THAT(woken(), ElementsAre(1));

  // Taking the links away again is work, too.
  EXPECT_EQ(table.waitCount(), 0U);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(table.work(kSlice), kSlice);
  }
  EXPECT_FALSE(table.anyWork());
}

TEST_F(KvTableSlicesTest, AWaitEndsWhenAllAreThereAtOneMoment) {
  setMany(50);
  beginWait(1, many(50));
  table.work(30);
  ASSERT_TRUE(table.remove(name(3)));  // it has been seen already
  ASSERT_TRUE(table.remove(name(45)));
  workAll();
  EXPECT_THAT(woken(), IsEmpty());
  ASSERT_TRUE(table.set(name(45), "").isOk());
  EXPECT_THAT(woken(), IsEmpty());
  ASSERT_TRUE(table.set(name(3), "").isOk());
  EXPECT_THAT(woken(), ElementsAre(1));
}

TEST_F(KvTableSlicesTest, ASetBeforeAllNamesAreSeenEndsNothing) {
  beginWait(1, many(30));
  table.work(20);
  setMany(25);
  EXPECT_THAT(woken(), IsEmpty());
  workAll();
  EXPECT_THAT(woken(), IsEmpty());
  setMany(30);
  EXPECT_THAT(woken(), ElementsAre(1));
}

TEST_F(KvTableSlicesTest, ANameThatIsGivenTwiceIsWaitedForOnce) {
  const std::vector<std::string> once = many(15);
  std::vector<std::string> names = once;
  names.insert(names.end(), once.begin(), once.end());
  beginWait(1, names);
  workAll();
  setMany(15);
  EXPECT_THAT(woken(), ElementsAre(1));
  for (const std::string& each : once) {
    table.remove(each);
  }
  workAll();
  EXPECT_EQ(table.contentBytes(), 0U);
}

TEST_F(KvTableSlicesTest, AWaitThatIsGivenUpLeavesNothingWhereverItWas) {
  for (std::size_t done = 0; done <= 60; done += 5) {
    beginWait(1, many(50));
    table.work(done);
    table.cancelWait(1);
    EXPECT_EQ(table.waitCount(), 0U);
    setMany(50);  // wakes nobody
    EXPECT_THAT(woken(), IsEmpty());
    workAll();
    EXPECT_EQ(table.removePrefix(""), 50);
    EXPECT_EQ(table.contentBytes(), 0U) << done;
  }
}

TEST_F(KvTableSlicesTest, SeveralTakeTurns) {
  setMany(60);
  beginWait(1, many(60));
  beginWait(2, many(20));
  ASSERT_TRUE(table.set("/r/1", "").isOk());
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(table.set(str("/r/", 100 + i), "").isOk());
  }
  ASSERT_EQ(table.beginRemoval(3, "/r/"), std::nullopt);

  std::vector<WaitId> order;
  while (table.anyWork()) {
    EXPECT_LE(table.work(kSlice), kSlice);
    for (const WaitId id : woken()) {
      order.push_back(id);
    }
  }
  EXPECT_EQ(order.front(), 2U) << "the shortest comes first, though it began later";
  EXPECT_EQ(std::set(order.begin(), order.end()), (std::set<WaitId>{1, 2, 3}));
}

TEST_F(KvTableSlicesTest, AWaitForWhichThereIsNoRoomIsRefusedAtOnce) {
  KvTable small({.contentBytes = 10'000, .slice = kSlice});
  const std::vector<std::string> names = many(50);  // may cost 230 bytes each
  const Names views(names.begin(), names.end());
  EXPECT_EQ(small.beginWait(1, views, WaitFor::PRESENCE).reason(), Reason::LIMIT);
  EXPECT_EQ(small.contentBytes(), 0U);
  EXPECT_FALSE(small.anyWork());

  const Names fewer(views.begin(), views.begin() + 40);
  ASSERT_TRUE(small.beginWait(1, fewer, WaitFor::PRESENCE).isOk());
  EXPECT_EQ(small.beginWait(2, fewer, WaitFor::PRESENCE).reason(), Reason::LIMIT);
  EXPECT_LE(small.contentBytes(), 10'000U);
}

/// Two tables that are told the same; one of them waits in slices.
TEST_F(KvTableSlicesTest, EndsTheSameWaitsAsATableThatDoesAllAtOnce) {
  std::mt19937 random(7);
  const auto below = [&](unsigned limit) { return random() % limit; };
  KvTable whole;
  const std::vector<std::string> all = many(16);
  for (int step = 0; step < 20'000; ++step) {
    const std::string key = all[below(16)];
    const WaitId id = 1 + below(4);
    std::vector<WaitId> expected;
    switch (below(6)) {
      case 0:
      case 1:
      case 2:
        ASSERT_TRUE(table.set(key, "v").isOk() && whole.set(key, "v").isOk());
        break;
      case 3:
        ASSERT_EQ(table.remove(key), whole.remove(key));
        break;
      case 4: {
        const auto skipped = static_cast<std::ptrdiff_t>(below(4));
        const auto left = static_cast<std::ptrdiff_t>(below(4));
        const Names names(all.begin() + skipped, all.end() - left);
        const WaitFor what = below(2) == 0 ? WaitFor::VALUES : WaitFor::PRESENCE;
        ASSERT_TRUE(table.beginWait(id, names, what).isOk());
        if (whole.wait(id, names, what).value()) {
          expected.push_back(id);
        }
        break;
      }
      default:
        table.cancelWait(id);
        whole.cancelWait(id);
    }
    workAll();
    for (const Wake& wake : whole.takeWakes()) {
      expected.push_back(wake.id);
    }
    ASSERT_EQ(woken(), expected) << "step " << step;
    ASSERT_EQ(table.contentBytes(), whole.contentBytes()) << "step " << step;
  }
}

}  // namespace
}  // namespace unisono

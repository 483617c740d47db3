#include "unisono/store/prefix_store.hpp"

#include <gmock/gmock.h>
#include <thread>

#include "unisono/store/file_store.hpp"
#include "unisono/store/hash_store.hpp"

#include "base/clock.hpp"
#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using std::chrono::milliseconds;
using test::textOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class PrefixStoreTest : public ::testing::Test {
 protected:
  const StorePtr base = std::make_shared<HashStore>();
  PrefixStore store{"p", base};
};

TEST_F(PrefixStoreTest, PutsThePrefixInFrontOfEveryKey) {
  store.set("set", "1");
  store.add("add", 2);
  store.append("append", "3");
  store.compareSet("compare", "", "4");
  store.multiSet(std::vector<std::string>{"many"}, std::vector<Bytes>{Bytes{'5'}});

  EXPECT_THAT(base->listKeys(),
              UnorderedElementsAre("p/set", "p/add", "p/append", "p/compare", "p/many"));
  EXPECT_EQ(store.getString("add"), "2");
  EXPECT_EQ(store.multiGet(std::vector<std::string>{"many"}), std::vector<Bytes>{Bytes{'5'}});
  EXPECT_TRUE(store.check({"set", "append"}));
  store.wait({"set"}, milliseconds(0));
  EXPECT_TRUE(store.deleteKey("set"));
  EXPECT_FALSE(base->check({"p/set"}));
}

TEST_F(PrefixStoreTest, PutsThePrefixInFrontOfQueues) {
  store.queuePush("q", "v");

  EXPECT_EQ(base->queueLen("p/q"), 1);
  EXPECT_EQ(store.queueLen("q"), 1);
  EXPECT_EQ(store.queuePop("q"), Bytes{'v'});
}

TEST_F(PrefixStoreTest, NestsWithTheOutermostLast) {
  PrefixStore outer("a", std::make_shared<PrefixStore>("b", base));

  outer.set("k", "v");

  EXPECT_TRUE(base->check({"b/a/k"}));
}

TEST_F(PrefixStoreTest, ListsOnlyWhatIsUnderItsPrefix) {
  for (const char* key : {"p/x", "p/", "p", "pq/x", "/x"}) {
    base->set(key, "v");
  }

  EXPECT_THAT(store.listKeys(), UnorderedElementsAre("x", ""));
  EXPECT_THAT(PrefixStore("", base).listKeys(), UnorderedElementsAre("x"));
  EXPECT_EQ(store.numKeys(), 5) << "the whole store's";
}

TEST_F(PrefixStoreTest, DeletesByPrefixWithinItsOwn) {
  base->set("p/a/1", "v");
  base->set("a/1", "v");

  EXPECT_EQ(store.deletePrefix("a/"), 1);

  EXPECT_THAT(base->listKeys(), UnorderedElementsAre("a/1"));
}

TEST_F(PrefixStoreTest, NamesTheWholeKeyWhenAWaitGivesUp) {
  EXPECT_THAT(textOf([&] { store.wait({"absent"}, milliseconds(10)); }),
              HasSubstr("wait timeout after 10ms, keys: p/absent"));
}

TEST_F(PrefixStoreTest, SharesTheTimeoutOfTheStoreItWraps) {
  store.setTimeout(milliseconds(20));
  const TimePoint start = systemClock().now();

  EXPECT_EQ(base->timeout(), milliseconds(20));
  EXPECT_THAT(textOf([&] { store.barrier("b", 2); }), HasSubstr("timeout after 20ms"));

  EXPECT_LT(elapsedSince(start), milliseconds(5000));
}

TEST_F(PrefixStoreTest, MeetsAtABarrierUnderItsPrefix) {
  std::thread other([&] { PrefixStore("p", base).barrier("b", 2); });

  store.barrier("b", 2);

  other.join();
  EXPECT_TRUE(base->check({"p/b/num_members", "p/b/last_member"}));
}

TEST_F(PrefixStoreTest, ClonesTheStoreItWraps) {
  const test::TempDir folder;
  const auto file = std::make_shared<FileStore>(folder.file("store"));
  PrefixStore prefixed("p", file);

  const StorePtr twin = prefixed.clone();
  prefixed.set("k", "v");

  EXPECT_EQ(twin->getString("k"), "v");
  EXPECT_NE(dynamic_cast<PrefixStore&>(*twin).underlyingStore(), file);
}

TEST_F(PrefixStoreTest, GivesBackWhatItWraps) {
  const auto middle = std::make_shared<PrefixStore>("b", base);
  const PrefixStore outer("a", middle);

  EXPECT_EQ(outer.underlyingStore(), middle);
  EXPECT_EQ(outer.underlyingNonPrefixStore(), base);
  EXPECT_EQ(outer.hasExtendedApi(), base->hasExtendedApi());
}

TEST_F(PrefixStoreTest, RefusesToWrapNothing) {
  EXPECT_THAT(textOf<UsageError>([] { PrefixStore("p", nullptr); }),
              HasSubstr("store argument cannot be"));
}

// The scenarios of PyTorch's own C++ test of its FileStore, under a prefix.
TEST_F(PrefixStoreTest, CountsKeysOfAFileStoreAsPyTorchDoes) {
  const test::TempDir folder;
  {
    PrefixStore prefixed("p", std::make_shared<FileStore>(folder.file("store"), 2));
    prefixed.set("key0", "value0");
    prefixed.set("key1", "value1");
    prefixed.set("key2", "value2");
    EXPECT_EQ(prefixed.numKeys(), 4);
    EXPECT_TRUE(prefixed.deleteKey("key0"));
    EXPECT_EQ(prefixed.numKeys(), 3);
    prefixed.set("-key0", "value-");
    EXPECT_EQ(prefixed.getString("-key0"), "value-");
    EXPECT_TRUE(prefixed.deleteKey("-key0"));
    EXPECT_EQ(prefixed.numKeys(), 3);
  }
  PrefixStore prefixed("p", std::make_shared<FileStore>(folder.file("store"), 2));

  EXPECT_EQ(prefixed.getString("key1"), "value1");
  EXPECT_EQ(prefixed.numKeys(), 4);
}

}  // namespace
}  // namespace unisono

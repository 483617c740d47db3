#include "unisono/store/fake_store.hpp"

#include <gmock/gmock.h>

#include "unisono/store/prefix_store.hpp"

#include "store/expect.hpp"

namespace unisono {
namespace {

using test::reasonOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

TEST(FakeStoreTest, ForgetsWhatIsWritten) {
  FakeStore store;
  store.set("k", "v");
  store.multiSet(std::vector<std::string>{"a", "b"}, std::vector<Bytes>{{1}, {2}});

  EXPECT_EQ(store.getString("k"), "");
  EXPECT_EQ(store.numKeys(), 0);
  EXPECT_EQ(store.deletePrefix(""), 0);
}

TEST(FakeStoreTest, AnswersAsIfEverybodyHadDoneTheirPart) {
  FakeStore store;
  const std::vector<std::string> keys = {"a", "b"};

  EXPECT_TRUE(store.check(keys));
  store.wait(keys);
  store.wait(keys, 0ms);
  EXPECT_THAT(store.get("never set"), IsEmpty());
  EXPECT_THAT(store.multiGet(keys), ElementsAre(IsEmpty(), IsEmpty()));
  EXPECT_TRUE(store.deleteKey("a"));
  EXPECT_FALSE(store.hasExtendedApi());
  store.barrier("b", 1000);
}

TEST(FakeStoreTest, AddsAsTheOnlyCaller) {
  FakeStore store;

  EXPECT_EQ(store.add("n", 5), 5);
  EXPECT_EQ(store.add("n", -7), -7);
}

TEST(FakeStoreTest, RefusesWhatNotEveryStoreOffers) {
  FakeStore store;

  EXPECT_EQ(reasonOf<NotSupportedError>([&] { store.compareSet("k", "", "v"); }), Reason::USAGE);
  EXPECT_EQ(reasonOf<NotSupportedError>([&] { store.append("k", "v"); }), Reason::USAGE);
  EXPECT_EQ(reasonOf<NotSupportedError>([&] { store.listKeys(); }), Reason::USAGE);
  EXPECT_EQ(reasonOf<NotSupportedError>([&] { store.queuePush("q", "v"); }), Reason::USAGE);
  EXPECT_EQ(reasonOf<NotSupportedError>([&] { store.queuePop("q"); }), Reason::USAGE);
  EXPECT_EQ(reasonOf<NotSupportedError>([&] { store.queueLen("q"); }), Reason::USAGE);
}

TEST(FakeStoreTest, TakesNoNegativeTimeout) {
  FakeStore store;

  EXPECT_EQ(reasonOf<UsageError>([&] { store.wait({"k"}, -1ms); }), Reason::USAGE);
  EXPECT_EQ(reasonOf<UsageError>([&] { store.barrier("b", 2, -1ms); }), Reason::USAGE);
}

TEST(FakeStoreTest, ACloneIsAnotherWithTheSameTimeout) {
  const auto store = std::make_shared<FakeStore>();
  store->setTimeout(7s);
  const StorePtr twin = store->clone();

  EXPECT_NE(twin, store);
  EXPECT_NE(dynamic_cast<FakeStore*>(twin.get()), nullptr);
  EXPECT_EQ(twin->timeout(), 7s);
}

TEST(FakeStoreTest, CanStandBelowAPrefix) {
  PrefixStore store("p", std::make_shared<FakeStore>());
  store.set("k", "v");

  EXPECT_EQ(store.getString("k"), "");
  EXPECT_EQ(store.add("n", 3), 3);
  EXPECT_TRUE(store.check({"k"}));
  store.wait({"k"});
  store.barrier("b", 1000);
}

}  // namespace
}  // namespace unisono

// What every store promises of waiting: who is released by what, and when calls give up.
#include <atomic>
#include <chrono>
#include <gmock/gmock.h>
#include <thread>

#include "unisono/base/error.hpp"

#include "base/bytes.hpp"
#include "base/str.hpp"
#include "store/expect.hpp"
#include "support/blocked_call.hpp"
#include "support/bounds.hpp"
#include "support/store_kinds.hpp"

namespace unisono {
namespace {

using test::BlockedCall;
using test::EndsInTime;
using test::reasonOf;
using test::storeKinds;
using test::textOf;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

using StoreWaitTest = test::StoreTest;
INSTANTIATE_TEST_SUITE_P(AllStores, StoreWaitTest, ::testing::ValuesIn(storeKinds()),
                         test::kindName);

Bytes bytes(std::string_view text) {
  return {text.begin(), text.end()};
}

TEST_P(StoreWaitTest, ASetReleasesWhoGetsWaitsAndGetsMany) {
  const std::vector<std::string> keys = {"k"};
  BlockedCall getting([&] { return store.getString("k"); });
  BlockedCall waiting([&] { return store.wait({"k"}), true; });
  BlockedCall many([&] { return store.multiGet(keys); });

  store.set("k", "v");

  EXPECT_EQ(getting.result(), "v");
  EXPECT_TRUE(waiting.result());
  EXPECT_THAT(many.result(), ElementsAre(bytes("v")));
}

TEST_P(StoreWaitTest, EveryKindOfWriteReleases) {
  const std::vector<std::pair<std::string, std::function<void(const std::string&)>>> writes = {
      {"set", [&](const std::string& key) { store.set(key, "5"); }},
      {"add", [&](const std::string& key) { store.add(key, 5); }},
      {"append", [&](const std::string& key) { store.append(key, "5"); }},
      {"compareSet", [&](const std::string& key) { store.compareSet(key, "", "5"); }},
      {"multiSet",
       [&](const std::string& key) {
         store.multiSet(std::vector<std::string>{"other", key},
                        std::vector<Bytes>{bytes("0"), bytes("5")});
       }},
  };
  for (const auto& [name, write] : writes) {
    const std::string key = str("by ", name);
    BlockedCall getting([&] { return store.getString(key); });
    BlockedCall waiting([&] { return store.wait({key}), true; });

    write(key);

    EXPECT_EQ(getting.result(), "5") << name;
    EXPECT_TRUE(waiting.result()) << name;
  }
}

TEST_P(StoreWaitTest, ACloneReleasesToo) {
  const StorePtr other = store.clone();
  BlockedCall getting([&] { return store.getString("k"); });

  other->set("k", "v");

  EXPECT_EQ(getting.result(), "v");
}

TEST_P(StoreWaitTest, ACompareAndSetThatStoresNothingReleasesNobody) {
  BlockedCall getting([&] { return store.getString("k"); });
  BlockedCall waiting([&] { return store.wait({"k"}), true; });

  EXPECT_EQ(store.compareSet("k", "wrong", "new"), "wrong");
  EXPECT_TRUE(getting.staysBlocked());
  EXPECT_TRUE(waiting.staysBlocked());
  store.set("k", "v");

  EXPECT_EQ(getting.result(), "v");
  EXPECT_TRUE(waiting.result());
}

TEST_P(StoreWaitTest, EndsWithTheLastMissingKeyWhateverTheOrder) {
  const std::vector<std::string> keys = {"a", "b", "c"};
  store.set("b", "2");
  BlockedCall waiting([&] { return store.wait(keys), true; });
  BlockedCall getting([&] { return store.multiGet(keys); });

  store.set("c", "3");
  EXPECT_TRUE(waiting.staysBlocked());
  EXPECT_TRUE(getting.staysBlocked());
  store.set("a", "1");

  EXPECT_TRUE(waiting.result());
  EXPECT_THAT(getting.result(), ElementsAre(bytes("1"), bytes("2"), bytes("3")));
}

TEST_P(StoreWaitTest, AllKeysMustBeThereAtOneMoment) {
  const std::vector<std::string> keys = {"a", "b"};
  BlockedCall waiting([&] { return store.wait(keys), true; });
  BlockedCall getting([&] { return store.multiGet(keys); });

  store.set("a", "1");
  store.deleteKey("a");
  store.set("b", "2");
  EXPECT_TRUE(waiting.staysBlocked());
  EXPECT_TRUE(getting.staysBlocked());
  store.set("a", "3");

  EXPECT_TRUE(waiting.result());
  EXPECT_THAT(getting.result(), ElementsAre(bytes("3"), bytes("2")));
}

TEST_P(StoreWaitTest, AKeyNamedTwiceCountsOnce) {
  BlockedCall waiting([&] { return store.wait({"a", "a", "b"}), true; });

  store.set("a", "1");
  store.set("a", "2");
  EXPECT_TRUE(waiting.staysBlocked());
  store.set("b", "3");

  EXPECT_TRUE(waiting.result());
}

TEST_P(StoreWaitTest, ManyThreadsMayWaitWhileOthersWork) {
  std::vector<std::unique_ptr<BlockedCall<std::function<std::string()>>>> waiters;
  for (int i = 0; i < 8; ++i) {
    waiters.push_back(std::make_unique<BlockedCall<std::function<std::string()>>>(
        [this, i] { return store.getString(str("key ", i)); }));
  }

  EXPECT_EQ(store.add("n", 1), 1);
  EXPECT_FALSE(store.check({"key 0"}));
  for (int i = 0; i < 8; ++i) {
    store.set(str("key ", i), str("value ", i));
  }

  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(waiters[static_cast<std::size_t>(i)]->result(), str("value ", i));
  }
}

TEST_P(StoreWaitTest, GivesUpInTimeAndSaysWhatWasMissing) {
  store.setTimeout(120ms);
  const std::string key = "no such key";
  const auto what = AllOf(HasSubstr("wait timeout after 120ms, keys: " + kind().keyPrefix + key),
                          HasSubstr("[TIMEOUT]"), ContainsRegex("[t -i]imeout"));
  {
    const EndsInTime bound(120ms);
    EXPECT_THAT(textOf([&] { store.get(key); }), AllOf(what, HasSubstr("op=get")));
  }
  {
    const EndsInTime bound(120ms);
    EXPECT_THAT(textOf([&] { store.wait({key}); }), AllOf(what, HasSubstr("op=wait")));
  }
  {
    const EndsInTime bound(120ms);
    const std::vector<std::string> keys = {key};
    EXPECT_THAT(textOf([&] { store.multiGet(keys); }), AllOf(what, HasSubstr("op=multi_get")));
  }
  store.set(key, "v");
  EXPECT_EQ(store.getString(key), "v") << "a timeout does not break the store";
}

TEST_P(StoreWaitTest, TheTimeoutOfACallWinsOverTheStores) {
  const EndsInTime bound(120ms);

  EXPECT_THAT(textOf([&] {
                store.wait({"a", "b"}, 120ms);
              }),
              HasSubstr(str("wait timeout after 120ms, keys: ", kind().keyPrefix, "a, ",
                            kind().keyPrefix, "b")));
}

TEST_P(StoreWaitTest, ALateKeyIsNotLostToATimeout) {
  EXPECT_EQ(reasonOf([&] { store.wait({"k"}, 50ms); }), Reason::TIMEOUT);

  store.set("k", "v");

  store.wait({"k"}, 0ms);
  EXPECT_EQ(store.getString("k"), "v");
}

TEST_P(StoreWaitTest, ATimeoutOfZeroIsOneCheck) {
  store.set("there", "v");
  const std::vector<std::string> keys = {"there"};
  const std::vector<std::string> some = {"there", "missing"};
  store.setTimeout(0ms);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(store.getString("there"), "v");
    store.wait({"there"});
    ASSERT_THAT(store.multiGet(keys), ElementsAre(bytes("v")));
    ASSERT_EQ(reasonOf([&] { store.get("missing"); }), Reason::TIMEOUT);
    ASSERT_EQ(reasonOf([&] { store.wait(some); }), Reason::TIMEOUT);
    ASSERT_EQ(reasonOf([&] { store.multiGet(some); }), Reason::TIMEOUT);
    ASSERT_EQ(store.add("n", 1), i + 1);
    store.set("there", "v");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

TEST_P(StoreWaitTest, RefusesNegativeTimeouts) {
  const auto what = AllOf(HasSubstr("must not be negative"), HasSubstr("[USAGE]"));

  EXPECT_THAT(textOf<UsageError>([&] { store.setTimeout(-1ms); }), what);
  EXPECT_THAT(textOf<UsageError>([&] { store.wait({"k"}, -1ms); }), what);
  EXPECT_THAT(textOf<UsageError>([&] { store.barrier("b", 2, -1ms); }), what);
  EXPECT_EQ(store.timeout(), 20s);
  EXPECT_EQ(store.numKeys(), kind().ownKeys) << "nothing was sent";
}

TEST_P(StoreWaitTest, TimeoutsBeyondThirtyDaysWork) {
  for (const std::chrono::milliseconds timeout :
       {std::chrono::milliseconds(24h * 30), std::chrono::milliseconds(std::int64_t{1} << 32U),
        std::chrono::milliseconds::max()}) {
    store.deletePrefix("");
    store.setTimeout(timeout);
    BlockedCall getting([&] { return store.getString("k"); });
    BlockedCall waiting([&] { return store.wait({"k"}, timeout), true; });
    BlockedCall many([&] { return store.multiGet(std::vector<std::string>{"k"}); });
    BlockedCall meeting([&] { return store.barrier("b", 2, timeout), true; });

    EXPECT_TRUE(getting.staysBlocked());
    EXPECT_FALSE(waiting.finished() || many.finished() || meeting.finished());
    store.set("k", "v");
    store.barrier("b", 2, timeout);

    EXPECT_EQ(getting.result(), "v");
    EXPECT_TRUE(waiting.result());
    EXPECT_THAT(many.result(), ElementsAre(bytes("v")));
    EXPECT_TRUE(meeting.result());
  }
}

TEST_P(StoreWaitTest, AGuardSetsTheTimeoutForAWhile) {
  {
    const StoreTimeoutGuard guard(store, 70ms);
    EXPECT_EQ(store.timeout(), 70ms);
    const StoreTimeoutGuard inner(store, 0ms);
    EXPECT_EQ(store.timeout(), 0ms);
  }

  EXPECT_EQ(store.timeout(), 20s);
}

TEST_P(StoreWaitTest, ABarrierOfOneOrFewerReturnsAtOnce) {
  store.barrier("one", 1);
  store.barrier("none", 0);
  store.barrier("less", -3);
  store.barrier("at once", 1, 0ms);
}

TEST_P(StoreWaitTest, ABarrierLetsNobodyThroughBeforeTheLast) {
  for (int round = 0; round < 5; ++round) {
    const std::string key = str("round ", round);
    std::atomic<int> arrived{0};
    const auto meet = [&](Store& mine) {
      ++arrived;
      mine.barrier(key, 4);
      return arrived.load();
    };
    const StorePtr clone = store.clone();
    BlockedCall first([&] { return meet(store); });
    BlockedCall second([&] { return meet(*clone); });
    BlockedCall third([&] { return meet(*store.clone()); });
    EXPECT_FALSE(first.finished() || second.finished() || third.finished());

    EXPECT_EQ(meet(store), 4);

    EXPECT_EQ(first.result(), 4);
    EXPECT_EQ(second.result(), 4);
    EXPECT_EQ(third.result(), 4);
  }
}

TEST_P(StoreWaitTest, ABarrierThatIsCompleteLetsLaterOnesThrough) {
  BlockedCall first([&] { return store.barrier("b", 2), true; });
  store.barrier("b", 2);
  EXPECT_TRUE(first.result());

  store.barrier("b", 2, 0ms);
}

TEST_P(StoreWaitTest, ABarrierGivesUpInTimeAndStillCountsWhoCame) {
  {
    const EndsInTime bound(120ms);
    EXPECT_THAT(
        textOf([&] { store.barrier("b", 2, 120ms); }),
        AllOf(HasSubstr(" timeout after 120ms, key"), HasSubstr("b"), HasSubstr("[TIMEOUT]")));
  }

  store.barrier("b", 2, 5s);
  EXPECT_EQ(store.add("n", 1), 1);
}

TEST_P(StoreWaitTest, ABarrierWithoutATimeoutTakesTheStores) {
  store.setTimeout(120ms);
  const EndsInTime bound(120ms);

  EXPECT_EQ(reasonOf([&] { store.barrier("b", 2); }), Reason::TIMEOUT);
}

TEST_P(StoreWaitTest, AnUnrelatedChangeReleasesNobody) {
  BlockedCall getting([&] { return store.getString("k"); });
  BlockedCall meeting([&] { return store.barrier("b", 2), true; });
  for (int i = 0; i < 50; ++i) {
    store.set(str("other ", i), "x");
    store.deleteKey(str("other ", i));
  }

  EXPECT_TRUE(getting.staysBlocked());
  EXPECT_TRUE(meeting.staysBlocked());
  store.set("k", "v");
  store.barrier("b", 2);

  EXPECT_EQ(getting.result(), "v");
  EXPECT_TRUE(meeting.result());
}

}  // namespace
}  // namespace unisono

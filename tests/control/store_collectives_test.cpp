// Control collectives over every kind of store, with ranks that are threads.
#include "unisono/control/store_collectives.hpp"

#include <atomic>
#include <functional>
#include <gmock/gmock.h>
#include <map>

#include "unisono/store/hash_store.hpp"
#include "unisono/store/prefix_store.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/bytes.hpp"
#include "base/str.hpp"
#include "store/common.hpp"
#include "store/expect.hpp"
#include "support/blocked_call.hpp"
#include "support/bounds.hpp"
#include "support/store_kinds.hpp"
#include "support/support.hpp"
#include "support/thread_world.hpp"

namespace unisono {
namespace {

using test::BlockedCall;
using test::EndsInTime;
using test::errorOf;
using test::onThreads;
using test::ScopedEnv;
using test::storeKinds;
using test::textOf;
using test::textOfThrown;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

constexpr int kWorld = 4;
constexpr auto kLong = 60s;  // nothing here waits that long, unless it hangs

using Body = std::function<void(StoreCollectives&, int rank)>;

/// Runs `body` on every rank of `world`, over one store.
std::vector<std::string> outcomes(const StorePtr& store, const Body& body, int world = kWorld) {
  std::vector<std::string> texts;
  for (const auto& thrown : onThreads(world, [&](int rank) {
         StoreCollectives ranks(store, rank, world);
         body(ranks, rank);
       })) {
    texts.push_back(textOfThrown(thrown));
  }
  return texts;
}

std::vector<std::string> texts(const std::vector<Bytes>& values) {
  std::vector<std::string> all;
  for (const Bytes& value : values) {
    all.emplace_back(asText(value));
  }
  return all;
}

/// What is in the store, by key.
std::map<std::string, std::string> contents(Store& store) {
  std::map<std::string, std::string> all;
  for (const std::string& key : store.listKeys()) {
    all[key] = store.getString(key);
  }
  return all;
}

class StoreCollectivesTest : public test::StoreTest {
 protected:
  StoreCollectives ranks(int rank, int world = kWorld) { return {made.store, rank, world}; }
};
INSTANTIATE_TEST_SUITE_P(AllStores, StoreCollectivesTest, ::testing::ValuesIn(storeKinds()),
                         test::kindName);

TEST_P(StoreCollectivesTest, NobodyLeavesABarrierBeforeTheLastHasCome) {
  std::atomic<int> come{0};
  EXPECT_THAT(outcomes(made.store,
                       [&](StoreCollectives& ranks, int) {
                         for (int i = 1; i <= 3; ++i) {
                           come.fetch_add(1);
                           ranks.barrier(str("b", i), kLong);
                           EXPECT_GE(come.load(), i * kWorld);
                         }
                       }),
              Each(""));
}

TEST_P(StoreCollectivesTest, ABarrierThatDoesNotBlockOnlyAnnounces) {
  ranks(0, 2).barrier("b", 0ms, false);

  ranks(1, 2).barrier("b", kLong);  // the last one, which waits for nobody
}

TEST_P(StoreCollectivesTest, EverybodyReceivesWhatOneBroadcasts) {
  EXPECT_THAT(outcomes(made.store,
                       [](StoreCollectives& ranks, int rank) {
                         if (rank == 2) {
                           ranks.broadcastSend("k", "from 2", kLong);
                         } else {
                           EXPECT_EQ(asText(ranks.broadcastRecv("k", kLong)), "from 2");
                         }
                       }),
              Each(""));
}

TEST_P(StoreCollectivesTest, OneGathersByRankWhatAllSend) {
  EXPECT_THAT(outcomes(made.store,
                       [](StoreCollectives& ranks, int rank) {
                         const std::string own = str("from ", rank);
                         if (rank != 1) {
                           ranks.gatherSend("k", own, kLong);
                         } else {
                           EXPECT_THAT(texts(ranks.gatherRecv("k", own, kLong)),
                                       ElementsAre("from 0", "from 1", "from 2", "from 3"));
                         }
                       }),
              Each(""));
}

TEST_P(StoreCollectivesTest, EachReceivesItsPartOfWhatOneScatters) {
  EXPECT_THAT(outcomes(made.store,
                       [](StoreCollectives& ranks, int rank) {
                         const std::vector<Bytes> parts = {toBytes("to 0"), toBytes("to 1"),
                                                           toBytes("to 2"), Bytes{}};
                         const Bytes own = rank == 3 ? ranks.scatterSend("k", parts, kLong)
                                                     : ranks.scatterRecv("k", kLong);
                         EXPECT_EQ(asText(own), rank == 3 ? "" : str("to ", rank));
                       }),
              Each(""));
}

TEST_P(StoreCollectivesTest, AllGatherByRank) {
  EXPECT_THAT(outcomes(made.store,
                       [](StoreCollectives& ranks, int rank) {
                         EXPECT_THAT(texts(ranks.allGather("k", str(rank), kLong)),
                                     ElementsAre("0", "1", "2", "3"));
                       }),
              Each(""));
}

TEST_P(StoreCollectivesTest, AllKnowTheSum) {
  EXPECT_THAT(outcomes(made.store,
                       [](StoreCollectives& ranks, int rank) {
                         EXPECT_EQ(ranks.allSum("k", rank + 1, kLong), 10);
                         EXPECT_EQ(ranks.allSum("negative", 1 - rank, kLong), -2);
                       }),
              Each(""));
}

TEST_P(StoreCollectivesTest, ARankAloneNeedsNobody) {
  StoreCollectives alone = ranks(0, 1);

  alone.barrier("barrier", 0ms);
  alone.broadcastSend("broadcast", "x", 0ms);
  EXPECT_THAT(texts(alone.gatherRecv("gather", "x", 0ms)), ElementsAre("x"));
  EXPECT_EQ(asText(alone.scatterSend("scatter", std::vector<Bytes>{toBytes("x")}, 0ms)), "x");
  EXPECT_THAT(texts(alone.allGather("all_gather", "x", 0ms)), ElementsAre("x"));
  EXPECT_EQ(alone.allSum("sum", -5, 0ms), -5);
}

TEST_P(StoreCollectivesTest, WhoHasNotComeIsNamed) {
  ranks(2).barrier("barrier", 0ms, false);
  ranks(2).gatherSend("gather", "x");
  ranks(0).gatherSend("gather", "x");
  StoreCollectives waiting = ranks(1);

  const auto barrier = errorOf([&] { waiting.barrier("barrier", 30ms); });
  ASSERT_TRUE(barrier);
  EXPECT_EQ(barrier->reason, Reason::TIMEOUT);
  EXPECT_THAT(barrier->culprits, ElementsAre(0, 3));
  EXPECT_EQ(barrier->elapsed, 30ms);
  EXPECT_THAT(describe(*barrier),
              AllOf(HasSubstr("barrier failed -- missing ranks: 0, 3, wait timeout after 30ms"),
                    HasSubstr("key: barrier. DO: "), HasSubstr("rank=1/4 culprits=[0,3]")));

  EXPECT_THAT(textOf([&] { waiting.gatherRecv("gather", "x", 30ms); }),
              HasSubstr("gather failed -- missing ranks: 3, wait timeout after 30ms"));
  EXPECT_THAT(textOf([&] { waiting.allGather("all_gather", "x", 30ms); }),
              HasSubstr("all_gather failed -- missing ranks: 0, 2, 3, wait timeout after 30ms"));
  EXPECT_THAT(textOf([&] { waiting.allSum("sum", 1, 30ms); }),
              HasSubstr("barrier failed -- missing ranks: 0, 2, 3, wait timeout after 30ms"));
}

TEST_P(StoreCollectivesTest, WhoReceivesInVainIsToldTheKey) {
  StoreCollectives waiting = ranks(1);

  EXPECT_THAT(textOf([&] { waiting.broadcastRecv("k", 30ms); }),
              HasSubstr("broadcast_recv gave up. Wait timeout after 30ms, key: k. DO: "));
  EXPECT_THAT(textOf([&] { waiting.scatterRecv("s", 30ms); }),
              HasSubstr("scatter_recv gave up. Wait timeout after 30ms, key: s/1. DO: "));
}

TEST_P(StoreCollectivesTest, TheTimeoutOfTheCallCountsAndThatOfTheStoreStays) {
  store.setTimeout(7ms);
  StoreCollectives waiting = ranks(0, 2);
  {
    const EndsInTime bound(100ms);
    EXPECT_EQ(test::reasonOf([&] { waiting.broadcastRecv("k", 100ms); }), Reason::TIMEOUT);
  }
  {
    const EndsInTime bound(100ms);
    EXPECT_EQ(test::reasonOf([&] { waiting.allGather("g", "x", 100ms); }), Reason::TIMEOUT);
  }
  EXPECT_EQ(store.timeout(), 7ms);

  store.setTimeout(kLong);
  EXPECT_EQ(test::reasonOf([&] { waiting.scatterRecv("s", 0ms); }), Reason::TIMEOUT);
  EXPECT_EQ(store.timeout(), kLong);
}

TEST_P(StoreCollectivesTest, KeysAndValuesAreThoseOfPyTorch) {
  const std::vector<Bytes> parts = {toBytes("a"), toBytes("b")};
  StoreCollectives first = ranks(0, 2);
  StoreCollectives second = ranks(1, 2);
  first.barrier("b", 0ms, false);
  second.barrier("b", 0ms);
  first.broadcastSend("c", "x");
  second.gatherSend("g", "y");
  first.scatterSend("s", parts);
  errorOf([&] { first.allGather("a", "z", 0ms); });
  errorOf([&] { second.allSum("n", 3, 0ms); });

  const std::map<std::string, std::string> expected = {
      {"a/0", "z"},
      {"b/0", "joined"},
      {"b/1", "joined"},
      {"b/last_members", "<val_ignored>"},
      {"b/num_members", "2"},
      {"c", "x"},
      {"g/1", "y"},
      {"n", "3"},
      {"n/barrier/1", "joined"},
      {"n/barrier/num_members", "1"},
      {"s/1", "b"},
  };
  EXPECT_EQ(contents(store), expected);
}

TEST_P(StoreCollectivesTest, NothingIsLeftWhereTheLastOneCleansUp) {
  const ScopedEnv cleanup("UNISONO_CC_CLEANUP", "1");
  EXPECT_THAT(outcomes(made.store,
                       [](StoreCollectives& ranks, int rank) {
                         const std::vector<Bytes> parts(kWorld, toBytes("part"));
                         ranks.barrier("b", kLong);
                         ranks.barrier("announced", kLong, rank != 0);
                         ranks.allSum("n", rank, kLong);
                         ranks.allGather("a", "x", kLong);
                         if (rank == 0) {
                           ranks.broadcastSend("c", "x", kLong);
                           ranks.scatterSend("s", parts, kLong);
                           ranks.gatherRecv("g", "x", kLong);
                         } else {
                           ranks.broadcastRecv("c", kLong);
                           ranks.scatterRecv("s", kLong);
                           ranks.gatherSend("g", "x", kLong);
                         }
                       }),
              Each(""));

  EXPECT_THAT(store.listKeys(), IsEmpty());
}

TEST_P(StoreCollectivesTest, ABarrierWhoseKeyTheStoreKnowsIsRefused) {
  ranks(0, 2).barrier("b", 0ms, false);
  ranks(1, 2).barrier("b", kLong);
  StoreCollectives later = ranks(0, 2);

  EXPECT_THAT(textOf<UsageError>([&] { later.barrier("b", kLong); }),
              HasSubstr("the key b has been used in this store before: 3 have come to the "
                        "barrier, of 2 ranks. DO: "));
}

TEST_P(StoreCollectivesTest, CallsOfOneObjectDoNotHoldEachOtherUp) {
  StoreCollectives first = ranks(0, 2);
  BlockedCall receiving([&] { return first.broadcastRecv("a", kLong); });

  first.broadcastSend("other", "x", kLong);
  EXPECT_EQ(asText(ranks(1, 2).broadcastRecv("other", kLong)), "x");
  EXPECT_FALSE(receiving.finished());
  ranks(1, 2).broadcastSend("a", "y", kLong);

  EXPECT_EQ(asText(receiving.result()), "y");
}

TEST(StoreCollectivesArgumentsTest, AKeyServesOnceWhateverCameOfIt) {
  const auto store = std::make_shared<HashStore>();
  StoreCollectives ranks(store, 0, 2);
  const std::vector<Bytes> parts(2);
  EXPECT_EQ(test::reasonOf([&] { ranks.broadcastRecv("k", 0ms); }), Reason::TIMEOUT);
  EXPECT_EQ(test::reasonOf([&] { ranks.allSum("sum", 1, 0ms); }), Reason::TIMEOUT);

  const std::vector<std::function<void(const std::string&)>> calls = {
      [&](const std::string& key) { ranks.barrier(key, kLong); },
      [&](const std::string& key) { ranks.broadcastSend(key, "x", kLong); },
      [&](const std::string& key) { ranks.broadcastRecv(key, kLong); },
      [&](const std::string& key) { ranks.gatherSend(key, "x", kLong); },
      [&](const std::string& key) { ranks.gatherRecv(key, "x", kLong); },
      [&](const std::string& key) { ranks.scatterSend(key, parts, kLong); },
      [&](const std::string& key) { ranks.scatterRecv(key, kLong); },
      [&](const std::string& key) { ranks.allGather(key, "x", kLong); },
      [&](const std::string& key) { ranks.allSum(key, 1, kLong); },
  };
  for (const auto& call : calls) {
    for (const std::string key : {"k", "sum", "sum/barrier"}) {
      EXPECT_THAT(textOf<UsageError>([&] { call(key); }),
                  HasSubstr(str("Key ", key, " has already been used.")));
    }
  }
}

TEST(StoreCollectivesArgumentsTest, WrongOnesAreRefusedAndNothingIsSent) {
  const auto store = std::make_shared<HashStore>();
  StoreCollectives ranks(store, 0, 3);
  const std::vector<Bytes> two(2);
  const std::vector<Bytes> three(3);

  EXPECT_THAT(textOf<UsageError>([&] { StoreCollectives(nullptr, 0, 1); }),
              HasSubstr("needs a store"));
  EXPECT_THAT(textOf<UsageError>([&] { StoreCollectives(store, 0, 0); }),
              HasSubstr("the world size is 0"));
  EXPECT_THAT(textOf<UsageError>([&] { StoreCollectives(store, 3, 3); }),
              HasSubstr("rank 3 is not one of the 3 ranks"));
  EXPECT_THAT(textOf<UsageError>([&] { StoreCollectives(store, -1, 3); }),
              HasSubstr("rank -1 is not one of the 3 ranks"));
  EXPECT_THAT(textOf<UsageError>([&] { ranks.scatterSend("k", two); }),
              HasSubstr("scatter_send needs one value for each of the 3 ranks, but got 2"));
  EXPECT_THAT(textOf<UsageError>([&] { ranks.barrier("k", -1ms); }),
              HasSubstr("must not be negative"));
  EXPECT_THAT(store->listKeys(), IsEmpty());
  ranks.scatterSend("k", three, 0ms);  // the key was not used
}

TEST(StoreCollectivesArgumentsTest, WithoutATimeoutTheEnvironmentSaysHowLongToWait) {
  StoreCollectives ranks(std::make_shared<HashStore>(), 0, 2);
  const ScopedEnv seconds("UNISONO_TIMEOUT", "0.02");

  EXPECT_THAT(textOf([&] { ranks.barrier("k"); }), HasSubstr("wait timeout after 20ms"));
}

TEST(StoreCollectivesRollCallTest, FindsFewMissingRanksAmongManyAndNamesAll) {
  constexpr int kMany = 1000;
  const auto store = std::make_shared<HashStore>();
  for (int rank = 0; rank < kMany; ++rank) {
    if (rank != 17 && rank != 998 && rank != 999) {
      StoreCollectives(store, rank, kMany).barrier("b", 0ms, false);
    }
  }

  const auto error = errorOf([&] { StoreCollectives(store, 998, kMany).barrier("b", 0ms); });

  ASSERT_TRUE(error);
  EXPECT_THAT(error->culprits, ElementsAre(17, 999));
}

TEST(StoreCollectivesRollCallTest, PrefixesKeepJobsApart) {
  const auto store = std::make_shared<HashStore>();
  const auto job = [&](const std::string& name) {
    return std::make_shared<PrefixStore>(name, store);
  };

  for (const std::string name : {"job1", "job2"}) {
    EXPECT_THAT(outcomes(job(name), [](StoreCollectives& ranks,
                                       int rank) { EXPECT_EQ(ranks.allSum("n", rank, kLong), 6); }),
                Each(""));
  }
}

TEST(StoreCollectivesLossTest, AStoreThatIsDestroyedEndsWaits) {
  auto server =
      std::make_unique<TCPStore>("127.0.0.1", TCPStoreOptions{.port = 0, .isServer = true});
  const auto client =
      std::make_shared<TCPStore>("127.0.0.1", TCPStoreOptions{.port = server->port()});
  StoreCollectives ranks(client, 0, 2);
  BlockedCall waiting([&] { ranks.barrier("b", kLong); });
  server.reset();

  EXPECT_EQ(test::reasonOf<DistNetworkError>([&] { waiting.result(); }), Reason::STORE_LOST);
  EXPECT_EQ(test::reasonOf<DistNetworkError>([&] { ranks.allGather("a", "x", kLong); }),
            Reason::STORE_LOST);
}

}  // namespace
}  // namespace unisono

// What every store with queues promises of them, and that the others say no.
#include <algorithm>
#include <atomic>
#include <gmock/gmock.h>
#include <mutex>
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
using test::StoreKind;
using test::storeKinds;
using test::textOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;
using namespace std::string_literals;

std::vector<StoreKind> kinds(bool withQueues) {
  std::vector<StoreKind> chosen;
  std::copy_if(storeKinds().begin(), storeKinds().end(), std::back_inserter(chosen),
               [=](const StoreKind& kind) { return kind.hasQueues == withQueues; });
  return chosen;
}

class StoreQueueTest : public test::StoreTest {
 protected:
  std::string pop(const std::string& name = "q", bool block = true) {
    return std::string(asText(store.queuePop(name, block)));
  }
};
INSTANTIATE_TEST_SUITE_P(AllStores, StoreQueueTest, ::testing::ValuesIn(kinds(true)),
                         test::kindName);

using NoQueuesTest = test::StoreTest;
INSTANTIATE_TEST_SUITE_P(AllStores, NoQueuesTest, ::testing::ValuesIn(kinds(false)),
                         test::kindName);

TEST_P(NoQueuesTest, SaysThatItHasNone) {
  EXPECT_THAT(textOf<NotSupportedError>([&] { store.queuePush("q", "v"); }),
              AllOf(HasSubstr("queue support is not implemented"), HasSubstr("[USAGE]")));
  EXPECT_THAT(textOf<NotSupportedError>([&] { store.queuePop("q"); }),
              HasSubstr("queue support is not implemented"));
  EXPECT_THAT(textOf<NotSupportedError>([&] { store.queueLen("q"); }),
              HasSubstr("queue support is not implemented"));
}

TEST_P(StoreQueueTest, GivesBackInOrderWhatWasPushed) {
  EXPECT_FALSE(store.check({"q"}));
  EXPECT_EQ(store.queueLen("q"), 0);
  store.queuePush("q", "first");
  store.queuePush("q", "second");

  EXPECT_TRUE(store.check({"q"}));
  EXPECT_EQ(store.queueLen("q"), 2);
  store.wait({"q"});
  EXPECT_EQ(pop(), "first");
  EXPECT_EQ(pop(), "second");
  EXPECT_FALSE(store.check({"q"}));
  EXPECT_EQ(store.queueLen("q"), 0);
}

TEST_P(StoreQueueTest, CarriesAnyElement) {
  const std::string large(300'000, '\x7f');
  for (const std::string& element : {""s, "\0a\n"s, large, ""s}) {
    store.queuePush("q\0\n"s, element);
  }

  EXPECT_EQ(pop("q\0\n"s), "");
  EXPECT_EQ(pop("q\0\n"s, false), "\0a\n"s);
  EXPECT_TRUE(pop("q\0\n"s) == large);
  EXPECT_TRUE(store.check({"q\0\n"s})) << "an empty element is an element";
  EXPECT_EQ(pop("q\0\n"s, false), "");
  EXPECT_FALSE(store.check({"q\0\n"s}));
}

TEST_P(StoreQueueTest, APopThatIsNotToWaitSaysThatTheQueueIsEmpty) {
  EXPECT_THAT(textOf<DistQueueEmptyError>([&] { pop("q", false); }), HasSubstr("queue is empty"));
  store.queuePush("q", "v");

  EXPECT_EQ(pop("q", false), "v");
  EXPECT_THROW(pop("q", false), DistQueueEmptyError);
  EXPECT_EQ(store.queueLen("q"), 0);
}

TEST_P(StoreQueueTest, APushReleasesWhoPops) {
  BlockedCall popping([&] { return pop(); });

  store.queuePush("q", "v");

  EXPECT_EQ(popping.result(), "v");
  EXPECT_EQ(store.queueLen("q"), 0);
}

TEST_P(StoreQueueTest, APushReleasesTheRightOneOfTwo) {
  BlockedCall getting([&] { return store.getString("other"); });
  BlockedCall popping([&] { return pop(); });

  store.queuePush("q", "v");

  EXPECT_EQ(popping.result(), "v");
  EXPECT_TRUE(getting.staysBlocked());
  store.set("other", "w");
  EXPECT_EQ(getting.result(), "w");
}

TEST_P(StoreQueueTest, OneWhoPoppedBeforeIsNotDisturbedByLaterPushes) {
  const StorePtr other = store.clone();
  BlockedCall popping([&] { return pop(); });
  other->queuePush("q", "1");
  EXPECT_EQ(popping.result(), "1");
  BlockedCall getting([&] { return store.getString("k"); });

  other->queuePush("q", "2");

  EXPECT_TRUE(getting.staysBlocked());
  EXPECT_EQ(store.queueLen("q"), 1);
  other->set("k", "v");
  EXPECT_EQ(getting.result(), "v");
}

TEST_P(StoreQueueTest, EachOfManyWhoPopGetsOneElement) {
  constexpr int kPoppers = 6;
  constexpr int kEach = 30;
  std::mutex mutex;
  std::vector<std::string> got;
  std::vector<std::thread> threads;
  for (int i = 0; i < kPoppers; ++i) {
    threads.emplace_back([&, own = i % 2 == 0 ? store.clone() : made.store] {
      for (int taken = 0; taken < kEach; ++taken) {
        const Bytes element = own->queuePop("q");
        const std::lock_guard lock(mutex);
        got.emplace_back(asText(element));
      }
    });
  }
  std::vector<std::string> pushed;
  for (int i = 0; i < kPoppers * kEach; ++i) {
    pushed.push_back(str("element ", i));
    store.queuePush("q", pushed.back());
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  EXPECT_THAT(got, ::testing::UnorderedElementsAreArray(pushed));
  EXPECT_EQ(store.queueLen("q"), 0);
}

TEST_P(StoreQueueTest, TwoTalkThroughTwoQueues) {
  const StorePtr other = store.clone();
  std::thread echo([&] {
    for (int i = 0; i < 50; ++i) {
      other->queuePush("back", other->queuePop("there"));
    }
  });
  for (int i = 0; i < 50; ++i) {
    store.queuePush("there", str(i));
    ASSERT_EQ(pop("back"), str(i));
  }
  echo.join();
}

TEST_P(StoreQueueTest, APopGivesUpInTimeAndTakesNothingLater) {
  store.setTimeout(120ms);
  {
    const EndsInTime bound(120ms);
    EXPECT_THAT(textOf([&] { pop(); }),
                AllOf(HasSubstr("wait timeout after 120ms, keys: " + kind().keyPrefix + "q"),
                      HasSubstr("[TIMEOUT]"), HasSubstr("op=queue_pop")));
  }
  store.queuePush("q", "v");

  EXPECT_EQ(store.queueLen("q"), 1);
  EXPECT_EQ(pop(), "v");
}

TEST_P(StoreQueueTest, APopWithATimeoutOfZeroIsOneCheck) {
  store.setTimeout(0ms);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(reasonOf([&] { pop(); }), Reason::TIMEOUT);
    store.queuePush("q", str(i));
    EXPECT_EQ(pop(), str(i));
  }
}

TEST_P(StoreQueueTest, APopMayWaitLongerThanThirtyDays) {
  for (const std::chrono::milliseconds timeout :
       {std::chrono::milliseconds(24h * 30), std::chrono::milliseconds::max()}) {
    store.setTimeout(timeout);
    BlockedCall popping([&] { return pop(); });

    EXPECT_TRUE(popping.staysBlocked());
    store.queuePush("q", "x");

    EXPECT_EQ(popping.result(), "x");
  }
}

TEST_P(StoreQueueTest, AQueueIsNoKey) {
  store.queuePush("q", "v");

  EXPECT_EQ(store.numKeys(), kind().ownKeys);
  EXPECT_THAT(store.listKeys(), IsEmpty());
  EXPECT_FALSE(store.deleteKey("q"));
  EXPECT_EQ(store.deletePrefix("q"), 0);
  EXPECT_EQ(store.queueLen("q"), 1);
  EXPECT_EQ(store.compareSet("q", "", "value"), "value");
  EXPECT_EQ(store.queueLen("q"), 1);
  EXPECT_TRUE(store.deleteKey("q"));
  EXPECT_EQ(pop(), "v");
}

TEST_P(StoreQueueTest, AGetOfANameThatIsOnlyAQueueWaitsForAValue) {
  store.queuePush("q", "element");
  const std::vector<std::string> keys = {"q"};
  {
    const StoreTimeoutGuard shortly(store, 60ms);
    EXPECT_EQ(reasonOf([&] { store.get("q"); }), Reason::TIMEOUT);
    EXPECT_EQ(reasonOf([&] { store.multiGet(keys); }), Reason::TIMEOUT);
  }
  BlockedCall getting([&] { return store.getString("q"); });
  BlockedCall many([&] { return store.multiGet(keys); });
  store.queuePush("q", "another");
  EXPECT_TRUE(getting.staysBlocked());
  EXPECT_TRUE(many.staysBlocked());
  store.set("q", "value");

  EXPECT_EQ(getting.result(), "value");
  EXPECT_EQ(asText(many.result().front()), "value");
  EXPECT_EQ(store.queueLen("q"), 2);
}

TEST_P(StoreQueueTest, APopOfANameThatIsOnlyAKeyWaitsForAnElement) {
  store.set("q", "value");
  EXPECT_THROW(pop("q", false), DistQueueEmptyError);
  BlockedCall popping([&] { return pop(); });

  store.set("q", "another value");
  EXPECT_TRUE(popping.staysBlocked());
  store.queuePush("q", "element");

  EXPECT_EQ(popping.result(), "element");
  EXPECT_EQ(store.getString("q"), "another value");
}

TEST_P(StoreQueueTest, AWaitForAQueueAndAKeyEndsWhenBothAreThere) {
  store.queuePush("q", "element");
  BlockedCall waiting([&] { return store.wait({"q", "k"}), true; });
  store.queuePush("q", "another");
  EXPECT_TRUE(waiting.staysBlocked());

  store.set("k", "v");

  EXPECT_TRUE(waiting.result());
  EXPECT_EQ(store.queueLen("q"), 2);
}

TEST_P(StoreQueueTest, AnEmptiedQueueNoLongerCountsForAWait) {
  store.queuePush("q", "element");
  BlockedCall waiting([&] { return store.wait({"q", "k"}), true; });
  EXPECT_EQ(pop(), "element");
  store.set("k", "v");
  EXPECT_TRUE(waiting.staysBlocked());

  store.queuePush("q", "another");

  EXPECT_TRUE(waiting.result());
}

TEST_P(StoreQueueTest, APushReleasesAllWhoWaitEvenIfTheElementIsTakenAtOnce) {
  BlockedCall first([&] { return store.wait({"q"}, 5s), true; });
  BlockedCall second([&] { return store.wait({"q"}, 5s), true; });
  awaitWaits(2);

  store.queuePush("q", "element");
  EXPECT_EQ(pop("q", false), "element");

  EXPECT_TRUE(first.result());
  EXPECT_TRUE(second.result());
}

}  // namespace
}  // namespace unisono

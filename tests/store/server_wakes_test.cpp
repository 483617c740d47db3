// What wakes those who wait at a real server, and what does not.
#include <gmock/gmock.h>
#include <tuple>

#include "base/str.hpp"
#include "store/raw_client.hpp"
#include "store/running_server.hpp"

namespace unisono::tcp {
namespace {

using test::blob;
using test::i64;
using test::kOne;
using test::kZero;
using test::pushOf;
using test::RawClient;
using test::req;
using test::setOf;
using test::waitOf;

/// Somebody waits, then somebody else does something.
struct WakeRow {
  std::string_view name;
  RequestWriter wait;
  RequestWriter event;
  bool wakes;

  friend void PrintTo(const WakeRow& row, std::ostream* out) { *out << row.name; }
};

std::vector<WakeRow> wakeRows() {
  const RequestWriter key = waitOf({"/k"});
  const RequestWriter barrier = req(Query::BARRIER).blob("/k").i64(2);
  const auto compareSet = [](std::string_view expected) {
    return req(Query::COMPARE_SET).blob("/k").blob(expected).blob("new");
  };
  return {
      {"Set", key, setOf("/k", ""), true},
      {"Add", key, req(Query::ADD).blob("/k").i64(0), true},
      {"Append", key, req(Query::APPEND).blob("/k").blob(""), true},
      {"MultiSet", key, req(Query::MULTI_SET).i64(2).blob("/o").blob("").blob("/k").blob(""), true},
      {"CompareSetThatStores", key, compareSet(""), true},
      {"CompareSetThatStoresNothing", key, compareSet("old"), false},
      {"Push", key, pushOf("/k", "x"), true},
      {"PushElsewhere", key, pushOf("/o", "x"), false},
      {"DeleteKey", key, req(Query::DELETE_KEY).blob("/k"), false},
      {"SetOfAnother", key, setOf("/o", ""), false},
      {"SetOfThePrefix", key, setOf("/", ""), false},
      {"Get", key, req(Query::GET).blob("/k"), false},
      {"FirstArrivalForItsKey", key, barrier, true},
      {"LastArrival", barrier, barrier, true},
      {"ArrivalElsewhere", barrier, req(Query::BARRIER).blob("/o").i64(1), false},
      {"SetOfABarriersKey", barrier, setOf("/k", "7"), false},
      {"AddToABarriersKey", barrier, req(Query::ADD).blob("/k").i64(7), false},
  };
}

class ServerWakeTest : public testing::TestWithParam<std::tuple<bool, WakeRow>>,
                       protected test::RunningServer {
 protected:
  ServerWakeTest() : RunningServer(std::get<0>(GetParam())) {}
};

TEST_P(ServerWakeTest, HappensWhenItShould) {
  const WakeRow& row = std::get<1>(GetParam());
  start();
  RawClient waiter = connect();
  RawClient other = connect();
  ASSERT_TRUE(waiter.send(row.wait) && waiter.served());

  ASSERT_TRUE(other.send(row.event) && other.send(req(Query::NUM_KEYS)));

  if (row.wakes) {
    EXPECT_EQ(waiter.receive(1), kZero);
  } else {
    EXPECT_EQ(other.receive(1).size(), 1U);  // it has happened, and the waiter would know
  }
  EXPECT_TRUE(waiter.served()) << "nothing else may come before the answer";
  EXPECT_EQ(waiter.ask(req(Query::CANCEL_WAIT), 1), kOne);
}
INSTANTIATE_TEST_SUITE_P(Loops, ServerWakeTest,
                         testing::Combine(testing::Bool(), testing::ValuesIn(wakeRows())),
                         [](const auto& both) {
                           return str(std::get<0>(both.param) ? "Libuv" : "Poll", "_",
                                      std::get<1>(both.param).name);
                         });

class ServerWaitTest : public testing::TestWithParam<bool>, protected test::RunningServer {
 protected:
  ServerWaitTest() : RunningServer(GetParam()) {
    start();
    other = connect();
    a = connect();
    b = connect();
  }

  /// Has `client` begin a wait that is not answered yet.
  static void begin(RawClient& client, const RequestWriter& wait) {
    ASSERT_TRUE(client.send(wait) && client.served());
  }
  /// Does something, and returns when it is done.
  void happen(const RequestWriter& event) { ASSERT_TRUE(other.send(event) && other.served()); }

  RawClient other;
  RawClient a;
  RawClient b;
};
INSTANTIATE_TEST_SUITE_P(Loops, ServerWaitTest, testing::Bool(),
                         [](const auto& loop) { return loop.param ? "Libuv" : "Poll"; });

TEST_P(ServerWaitTest, APushWakesTheOldestOnly) {
  begin(b, waitOf({"/q"}));
  begin(a, waitOf({"/q"}));

  happen(pushOf("/q", "x"));

  EXPECT_EQ(b.receive(1), kZero);
  EXPECT_EQ(b.ask(req(Query::QUEUE_POP).blob("/q"), 17), i64(1) + blob("x"));
  EXPECT_TRUE(a.served()) << "nothing may have come before the answer";
  happen(pushOf("/q", "y"));
  EXPECT_EQ(a.receive(1), kZero);
}

TEST_P(ServerWaitTest, AWokenWaiterIsNotListedUnderItsQueueAnyMore) {
  begin(a, waitOf({"/q"}));
  happen(pushOf("/q", "1"));
  ASSERT_EQ(a.receive(1), kZero);
  ASSERT_EQ(a.ask(req(Query::QUEUE_POP).blob("/q"), 17), i64(1) + blob("1"));
  begin(a, waitOf({"/k"}));

  happen(pushOf("/q", "2"));

  EXPECT_TRUE(a.served()) << "nothing may have come before the answer";
  happen(setOf("/k", "v"));
  EXPECT_EQ(a.receive(1), kZero);
}

TEST_P(ServerWaitTest, AFilledQueueAndAMissingKeyWaitForTheKeyOnly) {
  happen(pushOf("/q", "1"));
  begin(a, waitOf({"/q", "/k"}));

  happen(setOf("/k", "v"));

  EXPECT_EQ(a.receive(1), kZero);
}

TEST_P(ServerWaitTest, AKeySetAndDeletedAgainIsWaitedForAgain) {
  begin(a, waitOf({"/a", "/b", "/a"}));
  happen(setOf("/a", "1"));
  ASSERT_EQ(other.ask(req(Query::DELETE_KEY).blob("/a"), 8), i64(1));
  happen(setOf("/b", "1"));
  EXPECT_TRUE(a.served()) << "nothing may have come before the answer";

  happen(setOf("/a", "2"));

  EXPECT_EQ(a.receive(1), kZero);
}

TEST_P(ServerWaitTest, ACanceledWaitIsOver) {
  begin(a, waitOf({"/k"}));
  EXPECT_EQ(a.ask(req(Query::CANCEL_WAIT), 1), kOne);

  happen(setOf("/k", "v"));

  EXPECT_TRUE(a.served()) << "nothing may have come before the answer";
}

TEST_P(ServerWaitTest, AWakeThatCrossesTheCancellationComesFirst) {
  begin(a, waitOf({"/k"}));
  happen(setOf("/k", "v"));

  EXPECT_EQ(a.ask(req(Query::CANCEL_WAIT), 2), kZero + kOne);
}

TEST_P(ServerWaitTest, WhoArrivedAtABarrierAndLeftIsStillCounted) {
  const RequestWriter barrier = req(Query::BARRIER).blob("/b").i64(3);
  begin(a, barrier);
  a.close();
  begin(b, barrier);
  EXPECT_EQ(b.ask(req(Query::CANCEL_WAIT), 1), kOne);

  EXPECT_EQ(other.ask(barrier, 1), kZero);
  EXPECT_TRUE(b.served()) << "nothing may have come before the answer";
}

}  // namespace
}  // namespace unisono::tcp

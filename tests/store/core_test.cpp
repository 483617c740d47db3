// What the server core does: waits, wakes, answered forms, and ends of connections.
#include "store/tcp/core.hpp"

#include <gmock/gmock.h>

#include "base/str.hpp"
#include "store/core_harness.hpp"
#include "support/memory.hpp"

namespace unisono::tcp {
namespace {

using test::ask;
using test::blob;
using test::CoreHarness;
using test::i64;
using test::kHello;
using test::kOne;
using test::kZero;
using test::pushOf;
using test::req;
using test::setOf;
using test::waitOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kDone = kZero;
const std::string kTwo(1, '\2');

/// The refusal in `reply`: its token, then its text.
std::pair<std::string, std::string> refusalIn(std::string_view reply) {
  ByteReader reader(reply);
  EXPECT_EQ(reader.number<std::uint8_t>(), static_cast<std::uint8_t>(Verdict::REFUSED));
  const std::string reason(reader.blob().value_or(""));
  const std::string text(reader.blob().value_or(""));
  EXPECT_EQ(reader.rest(), "");
  return {reason, text};
}

class StoreCoreTest : public testing::Test {
 protected:
  CoreHarness server;
  ConnectionId a = server.connect();
  ConnectionId b = server.connect();
  ConnectionId c = server.connect();
};

TEST_F(StoreCoreTest, AMissingKeyReadsAsEmpty) {
  server.send(a, setOf("/k", "v"));

  EXPECT_EQ(server.ask(a, req(Query::GET).blob("/none")), blob(""));
  EXPECT_EQ(server.ask(a, req(Query::MULTI_GET).keys(std::vector<std::string>{"/n", "/k", "/n"})),
            blob("") + blob("v") + blob(""));
  server.send(a, pushOf("/q", "x"));
  EXPECT_EQ(server.ask(a, req(Query::GET).blob("/q")), blob(""));
}

TEST_F(StoreCoreTest, ListsOfNoKeysAreAnsweredAtOnce) {
  EXPECT_EQ(server.ask(a, waitOf({})), kZero);
  EXPECT_EQ(server.ask(a, req(Query::CHECK).i64(0)), kZero);
  EXPECT_EQ(server.ask(a, req(Query::MULTI_GET).i64(0)), "");
  EXPECT_EQ(server.ask(a, req(Query::MULTI_SET).i64(0)), "");
  EXPECT_EQ(server.ask(a, ask(Query::WAIT).i64(0)), kDone);
  EXPECT_EQ(server.ask(a, ask(Query::MULTI_GET).i64(0)), kDone);
  EXPECT_EQ(server.ask(a, ask(Query::MULTI_SET).i64(0)), kDone);
}

TEST_F(StoreCoreTest, PipelinedRequestsAreAnsweredInOrder) {
  std::string requests;
  std::string replies;
  for (int i = 1; i <= 200; ++i) {
    requests += setOf("/k", str(i)).bytes() + req(Query::GET).blob("/k").bytes() +
                req(Query::ADD).blob("/n").i64(i).bytes() + req(Query::PING).u32(7).bytes();
    replies += blob(str(i)) + i64(i * (i + 1) / 2) + std::string("\7\0\0\0", 4);
  }

  server.send(a, requests);

  EXPECT_EQ(server.take(a), replies);
}

TEST_F(StoreCoreTest, AMultiSetIsInvisibleUntilItIsCompleteAndNeverRepeated) {
  const std::string request =
      req(Query::MULTI_SET).i64(2).blob("/a").blob("1").blob("/b").blob("1").bytes();
  const std::size_t firstPair = 9 + 10 + 9;
  server.send(a, request.substr(0, firstPair + 3));
  EXPECT_EQ(server.ask(b, req(Query::GET).blob("/a")), blob(""));

  server.send(b, setOf("/a", "2"));
  server.send(a, request.substr(firstPair + 3, 4));
  EXPECT_EQ(server.ask(b, req(Query::GET).blob("/a")), blob("2"));
  server.send(a, request.substr(firstPair + 7));
  EXPECT_EQ(server.ask(b, req(Query::GET).blob("/a")), blob("1"));
}

// --- Waiting ------------------------------------------------------------------------------------

TEST_F(StoreCoreTest, AWaitForAKeySetAndDeletedAgainGoesOn) {
  ASSERT_EQ(server.ask(a, waitOf({"/a", "/b"})), "");
  server.send(b, setOf("/a", "1"));
  server.ask(b, req(Query::DELETE_KEY).blob("/a"));
  server.send(b, setOf("/b", "1"));
  EXPECT_EQ(server.take(a), "");

  server.send(b, setOf("/a", "2"));

  EXPECT_EQ(server.take(a), kZero);
}

TEST_F(StoreCoreTest, CompareSetWakesOnlyWhenItStored) {
  ASSERT_EQ(server.ask(a, waitOf({"/k"})), "");

  EXPECT_EQ(server.ask(b, req(Query::COMPARE_SET).blob("/k").blob("x").blob("y")), blob("x"));
  EXPECT_EQ(server.take(a), "");
  EXPECT_EQ(server.ask(b, req(Query::COMPARE_SET).blob("/k").blob("").blob("y")), blob("y"));
  EXPECT_EQ(server.take(a), kZero);
}

TEST_F(StoreCoreTest, CancelingIsAlwaysConfirmed) {
  EXPECT_EQ(server.ask(a, req(Query::CANCEL_WAIT)), kOne);
  ASSERT_EQ(server.ask(a, waitOf({"/k"})), "");
  EXPECT_EQ(server.ask(a, req(Query::CANCEL_WAIT)), kOne);

  server.send(b, setOf("/k", "v"));

  EXPECT_EQ(server.take(a), "");
  EXPECT_EQ(server.core.table().waitCount(), 0U);
}

TEST_F(StoreCoreTest, AWakeThatCrossesTheCancellationComesFirst) {
  ASSERT_EQ(server.ask(a, waitOf({"/k"})), "");
  server.send(b, setOf("/k", "v"));
  server.send(a, req(Query::CANCEL_WAIT));

  EXPECT_EQ(server.take(a), kZero + kOne);
}

TEST_F(StoreCoreTest, AWaitAndItsCancellationInOnePieceAreOneCheck) {
  const std::string both = waitOf({"/k"}).bytes() + req(Query::CANCEL_WAIT).bytes();
  server.send(a, both);
  EXPECT_EQ(server.take(a), kOne);

  server.send(b, setOf("/k", "v"));
  server.send(a, both);
  EXPECT_EQ(server.take(a), kZero + kOne);
}

TEST_F(StoreCoreTest, CancelingWorksForEveryKindOfWait) {
  const RequestWriter waits[] = {ask(Query::WAIT).keys(std::vector<std::string>{"/k"}),
                                 ask(Query::GET).blob("/k"),
                                 ask(Query::MULTI_GET).keys(std::vector<std::string>{"/k", "/l"}),
                                 ask(Query::QUEUE_POP).blob("/k"),
                                 ask(Query::BARRIER).blob("/b").i64(100),
                                 req(Query::BARRIER).blob("/b").i64(100)};
  for (const RequestWriter& wait : waits) {
    ASSERT_EQ(server.ask(a, wait), "");
    EXPECT_EQ(server.ask(a, req(Query::CANCEL_WAIT)), kOne);
    EXPECT_EQ(server.core.table().waitCount(), 0U);
  }
  server.send(b, setOf("/k", "").bytes() + setOf("/l", "").bytes() + pushOf("/k", "").bytes());
  EXPECT_EQ(server.take(a), "");
}

TEST_F(StoreCoreTest, ASecondWaitTakesThePlaceOfTheFirst) {
  ASSERT_EQ(server.ask(a, waitOf({"/first"})), "");
  ASSERT_EQ(server.ask(a, waitOf({"/second"})), "");

  server.send(b, setOf("/first", ""));
  EXPECT_EQ(server.take(a), "");
  server.send(b, setOf("/second", ""));
  EXPECT_EQ(server.take(a), kZero);
}

TEST_F(StoreCoreTest, ASecondWaitThatIsSatisfiedAtOnceEndsTheFirst) {
  server.send(b, setOf("/second", ""));
  ASSERT_EQ(server.ask(a, waitOf({"/first"})), "");
  EXPECT_EQ(server.ask(a, waitOf({"/second"})), kZero);

  server.send(b, setOf("/first", ""));
  EXPECT_EQ(server.take(a), "");
  EXPECT_EQ(server.ask(a, req(Query::CANCEL_WAIT)), kOne);
}

TEST_F(StoreCoreTest, OtherRequestsDoNotDisturbAWait) {
  ASSERT_EQ(server.ask(a, waitOf({"/k"})), "");
  EXPECT_EQ(server.ask(a, req(Query::ADD).blob("/n").i64(1)), i64(1));
  EXPECT_EQ(server.ask(a, setOf("/other", "v")), "");

  EXPECT_EQ(server.ask(a, setOf("/k", "v")), kZero);  // its own set ends it too
}

TEST_F(StoreCoreTest, OneSetWakesManyConnections) {
  std::vector<ConnectionId> waiters(5000);
  for (ConnectionId& waiter : waiters) {
    waiter = server.connect();
    server.send(waiter, waitOf({"/k"}));
  }
  ASSERT_EQ(server.core.table().waitCount(), waiters.size());

  server.send(a, setOf("/k", "v"));

  for (const ConnectionId waiter : waiters) {
    ASSERT_EQ(server.take(waiter), kZero);
  }
  EXPECT_EQ(server.core.table().waitCount(), 0U);
}

// --- Queues and the manners of those who wait for them ------------------------------------------

TEST_F(StoreCoreTest, APushWakesTheOldestStockWaiterOnly) {
  ASSERT_EQ(server.ask(b, waitOf({"/q"})), "");
  ASSERT_EQ(server.ask(a, waitOf({"/q"})), "");

  server.send(c, pushOf("/q", "x"));
  EXPECT_EQ(server.take(b), kZero);
  EXPECT_EQ(server.take(a), "");

  EXPECT_EQ(server.ask(b, req(Query::QUEUE_POP).blob("/q")), i64(1) + blob("x"));
  EXPECT_EQ(server.take(a), "");
  server.send(c, pushOf("/q", "y"));
  EXPECT_EQ(server.take(a), kZero);
}

TEST_F(StoreCoreTest, AWokenWaiterIsNotListedUnderItsQueueAnyMore) {
  ASSERT_EQ(server.ask(a, waitOf({"/q"})), "");
  server.send(b, pushOf("/q", "1"));
  ASSERT_EQ(server.take(a), kZero);
  ASSERT_EQ(server.ask(a, req(Query::QUEUE_POP).blob("/q")), i64(1) + blob("1"));
  ASSERT_EQ(server.ask(a, waitOf({"/k"})), "");

  server.send(b, pushOf("/q", "2"));
  EXPECT_EQ(server.take(a), "");
  server.send(b, setOf("/k", "v"));
  EXPECT_EQ(server.take(a), kZero);
}

TEST_F(StoreCoreTest, AFilledQueueAndAMissingKeyWaitForTheKeyOnly) {
  server.send(b, pushOf("/q", "1"));
  ASSERT_EQ(server.ask(a, waitOf({"/q", "/k"})), "");

  server.send(b, setOf("/k", "v"));

  EXPECT_EQ(server.take(a), kZero);
}

TEST_F(StoreCoreTest, AWaiterThatDoesSomethingElsePassesThePushOn) {
  ASSERT_EQ(server.ask(a, waitOf({"/q"})), "");
  ASSERT_EQ(server.ask(b, waitOf({"/q"})), "");
  server.send(c, pushOf("/q", "x"));
  ASSERT_EQ(server.take(a), kZero);

  server.ask(a, req(Query::PING).u32(0));

  EXPECT_EQ(server.take(b), kZero);
}

TEST_F(StoreCoreTest, AWaiterThatGoesAwayPassesThePushOn) {
  ASSERT_EQ(server.ask(a, waitOf({"/q"})), "");
  ASSERT_EQ(server.ask(b, waitOf({"/q"})), "");
  server.send(c, pushOf("/q", "x"));
  ASSERT_EQ(server.take(a), kZero);

  server.disconnect(a);

  EXPECT_EQ(server.take(b), kZero);
}

TEST_F(StoreCoreTest, AWaiterHasItsMomentHoweverLongTheOneBeforeItWaited) {
  for (const ConnectionId id : {a, b, c}) {
    ASSERT_EQ(server.ask(id, waitOf({"/q"})), "");
  }
  server.pass(std::chrono::minutes(1));
  const ConnectionId producer = server.connect();
  server.send(producer, pushOf("/q", "x"));
  server.disconnect(a);
  ASSERT_EQ(server.take(b), kZero);

  server.pass(Milliseconds(100));

  EXPECT_EQ(server.take(c), "") << "b is about to pop";
}

TEST_F(StoreCoreTest, AWaiterThatDoesNothingPassesThePushOnAfterAMoment) {
  ASSERT_EQ(server.ask(a, waitOf({"/q"})), "");
  ASSERT_EQ(server.ask(b, waitOf({"/q"})), "");
  server.send(c, pushOf("/q", "x"));
  ASSERT_EQ(server.take(a), kZero);

  server.pass(Milliseconds(100));
  EXPECT_EQ(server.take(b), "");
  server.pass(Milliseconds(100));
  EXPECT_EQ(server.take(b), kZero);
}

TEST_F(StoreCoreTest, ABusyConsumerIsNotRememberedOncePerPush) {
  const std::size_t before = ::unisono::test::liveBytes();
  for (int i = 0; i < 20'000; ++i) {
    server.ask(a, waitOf({"/q"}));
    server.send(b, pushOf("/q", "x"));
    if (i % 1000 == 999) {
      server.pass(Milliseconds(100));  // it has been woken, and is about to pop
    }
    ASSERT_EQ(server.take(a), kZero);
    ASSERT_EQ(server.ask(a, req(Query::QUEUE_POP).blob("/q")), i64(1) + blob("x"));
  }

  EXPECT_LT(::unisono::test::liveBytes() - before, 50'000U);
}

TEST_F(StoreCoreTest, APopFromAnotherQueueIsSomethingElse) {
  ASSERT_EQ(server.ask(a, waitOf({"/q"})), "");
  ASSERT_EQ(server.ask(b, waitOf({"/q"})), "");
  server.send(c, pushOf("/q", "x"));
  ASSERT_EQ(server.take(a), kZero);

  EXPECT_EQ(server.ask(a, req(Query::QUEUE_POP).blob("/other")), i64(0));

  EXPECT_EQ(server.take(b), kZero);
}

TEST_F(StoreCoreTest, AnsweredWaitsForAQueueAreAllWokenByOnePush) {
  // They do not pop afterwards: our clients pop with a request of its own.
  const RequestWriter wait = ask(Query::WAIT).keys(std::vector<std::string>{"/q"});
  ASSERT_EQ(server.ask(a, wait), "");
  ASSERT_EQ(server.ask(b, wait), "");

  server.send(c, pushOf("/q", "x"));

  EXPECT_EQ(server.take(a), kDone);
  EXPECT_EQ(server.take(b), kDone);
}

TEST_F(StoreCoreTest, AnsweredPopsAreHandedElementsInOrder) {
  const RequestWriter pop = ask(Query::QUEUE_POP).blob("/q");
  ASSERT_EQ(server.ask(b, pop), "");
  ASSERT_EQ(server.ask(a, pop), "");

  server.send(c, pushOf("/q", "1").bytes() + pushOf("/q", "").bytes() + pushOf("/q", "3").bytes());

  EXPECT_EQ(server.take(b), kDone + blob("1"));
  EXPECT_EQ(server.take(a), kDone + blob(""));
  EXPECT_EQ(server.ask(b, pop), kDone + blob("3"));
}

TEST_F(StoreCoreTest, AnElementIsNotHandedToAConnectionThatIsBeingClosed) {
  ASSERT_EQ(server.ask(a, ask(Query::QUEUE_POP).blob("/q")), "");
  server.core.receive(a, "\x7f", server.now);  // no such query; the server has not closed it yet
  server.core.receive(b, pushOf("/q", "precious").bytes(), server.now);
  server.pump();

  EXPECT_FALSE(server.isOpen(a));
  EXPECT_EQ(server.ask(b, req(Query::QUEUE_POP).blob("/q")), i64(1) + blob("precious"));
}

// --- Answered forms -----------------------------------------------------------------------------

TEST_F(StoreCoreTest, AnsweredWritesSayDone) {
  EXPECT_EQ(server.ask(a, ask(Query::SET).blob("/k").blob("v")), kDone);
  EXPECT_EQ(server.ask(a, ask(Query::APPEND).blob("/k").blob("w")), kDone);
  EXPECT_EQ(server.ask(a, ask(Query::MULTI_SET).i64(1).blob("/l").blob("x")), kDone);
  EXPECT_EQ(server.ask(a, ask(Query::QUEUE_PUSH).blob("/q").blob("x")), kDone);
  EXPECT_EQ(server.ask(a, ask(Query::ADD).blob("/n").i64(3)), kDone + i64(3));
  EXPECT_EQ(server.ask(a, req(Query::GET).blob("/k")), blob("vw"));
  EXPECT_EQ(server.ask(a, ask(Query::DELETE_PREFIX).blob("/")), kDone + i64(3));
  EXPECT_EQ(server.ask(a, req(Query::NUM_KEYS)), i64(0));
}

TEST_F(StoreCoreTest, AnsweredCompareSetTellsTheOutcome) {
  const auto compareSet = [&](const char* expected, const char* desired) {
    return server.ask(a, ask(Query::COMPARE_SET).blob("/k").blob(expected).blob(desired));
  };
  EXPECT_EQ(compareSet("x", "y"), kDone + kTwo + blob("x"));
  EXPECT_EQ(compareSet("", "y"), kDone + kZero + blob("y"));
  EXPECT_EQ(compareSet("x", "z"), kDone + kOne + blob("y"));
}

TEST_F(StoreCoreTest, AnsweredReadsWaitForWhatTheyAskFor) {
  ASSERT_EQ(server.ask(a, ask(Query::GET).blob("/k")), "");
  ASSERT_EQ(server.ask(b, ask(Query::MULTI_GET).keys(std::vector<std::string>{"/l", "/k", "/l"})),
            "");
  server.send(c, pushOf("/k", "a queue is no value"));
  server.send(c, setOf("/k", "v"));
  EXPECT_EQ(server.take(a), kDone + blob("v"));
  EXPECT_EQ(server.take(b), "");

  server.send(c, setOf("/l", ""));

  EXPECT_EQ(server.take(b), kDone + blob("") + blob("v") + blob(""));
  EXPECT_EQ(server.ask(a, ask(Query::GET).blob("/k")), kDone + blob("v"));
}

TEST_F(StoreCoreTest, AWokenReadGetsTheValueThatWokeIt) {
  ASSERT_EQ(server.ask(a, ask(Query::GET).blob("/k")), "");

  server.send(b, setOf("/k", "first").bytes() + setOf("/k", "second").bytes() +
                     req(Query::DELETE_KEY).blob("/k").bytes());

  EXPECT_EQ(server.take(a), kDone + blob("first"));
}

TEST_F(StoreCoreTest, AnsweredBarriersSayDoneToAll) {
  const RequestWriter barrier = ask(Query::BARRIER).blob("/b").i64(2);
  ASSERT_EQ(server.ask(a, barrier), "");
  EXPECT_EQ(server.ask(b, barrier), kDone);
  EXPECT_EQ(server.take(a), kDone);
}

TEST_F(StoreCoreTest, RefusalsOfAnsweredRequestsHaveATextAndKeepTheConnection) {
  server.send(a, setOf("/t", "text"));
  const RequestWriter refused[] = {ask(Query::ADD).blob("/t").i64(1),
                                   ask(Query::BARRIER).blob("/t").i64(2)};
  for (const RequestWriter& request : refused) {
    const auto [reason, text] = refusalIn(server.ask(a, request));
    EXPECT_EQ(reason, "USAGE");
    EXPECT_THAT(text, HasSubstr("'text'"));
    EXPECT_EQ(server.ask(a, req(Query::GET).blob("/t")), blob("text"));
  }
}

TEST_F(StoreCoreTest, RefusalsOfStockRequestsCloseTheirConnectionOnly) {
  server.send(a, setOf("/t", "text"));

  server.send(b, req(Query::ADD).blob("/t").i64(1));
  server.send(c, req(Query::BARRIER).blob("/t").i64(2));

  EXPECT_EQ(server.reason(b), Reason::USAGE);
  EXPECT_THAT(server.why(b), HasSubstr("add: "));
  EXPECT_EQ(server.reason(c), Reason::USAGE);
  EXPECT_EQ(server.take(b) + server.take(c), "");
  EXPECT_EQ(server.ask(a, req(Query::GET).blob("/t")), blob("text"));
}

TEST_F(StoreCoreTest, AddThatOverflowsClosesAndChangesNothing) {
  server.send(a, setOf("/n", "9223372036854775807"));

  server.send(b, req(Query::ADD).blob("/n").i64(1));

  EXPECT_EQ(server.reason(b), Reason::USAGE);
  EXPECT_EQ(server.ask(a, req(Query::GET).blob("/n")), blob("9223372036854775807"));
}

// --- The end of a connection --------------------------------------------------------------------

TEST_F(StoreCoreTest, ADisconnectInTheMiddleOfAnythingLeavesNothing) {
  const std::string kept[] = {
      setOf("/k", std::string(100'000, 'v')).bytes().substr(0, 60'000),
      req(Query::MULTI_SET).i64(100'000).blob("/k").bytes(),
      waitOf({"/w1", "/w2"}).bytes(),
      ask(Query::GET).blob("/w1").bytes(),
      ask(Query::QUEUE_POP).blob("/w1").bytes(),
      ask(Query::BARRIER).blob("/b").i64(1000).bytes() + "\x01",
      waitOf({"/w1"}).bytes() + ask(Query::QUEUE_POP).blob("/w2").bytes().substr(0, 5),
      req(Query::GET).blob("/large").bytes()};
  server.send(a, setOf("/large", std::string(1'000'000, 'x')));
  server.send(a, setOf("/b", "0"));
  const std::uint64_t contents = server.core.table().contentBytes();
  const std::size_t connections = server.core.connectionCount();
  for (const std::string& bytes : kept) {
    const ConnectionId client = server.connect();
    server.stopTaking(client);
    server.core.receive(client, bytes, server.now);
    EXPECT_GT(
        server.core.unsentBytes() + server.core.partialBytes() + server.core.table().waitCount(),
        0U);

    server.disconnect(client);

    EXPECT_EQ(server.core.connectionCount(), connections);
    EXPECT_EQ(server.core.unsentBytes(), 0U);
    EXPECT_EQ(server.core.partialBytes(), 0U);
    EXPECT_EQ(server.core.table().waitCount(), 0U);
    EXPECT_EQ(server.core.table().contentBytes(), contents);
  }
}

TEST_F(StoreCoreTest, ADisconnectFreesWhatTheConnectionHeld) {
  const std::string half = setOf("/k", std::string(4 << 20, 'v')).bytes().substr(0, 4 << 20);
  const std::size_t before = ::unisono::test::liveBytes();

  for (int i = 0; i < 20; ++i) {
    const ConnectionId client = server.connect();
    for (std::string_view rest = half; !rest.empty();
         rest.remove_prefix(std::min<std::size_t>(rest.size(), 65'536))) {
      server.core.receive(client, rest.substr(0, 65'536), server.now);
    }
    EXPECT_EQ(server.core.partialBytes(), half.size());
    server.disconnect(client);
  }

  EXPECT_LT(::unisono::test::liveBytes() - before, 100'000U);
}

TEST_F(StoreCoreTest, ARequestDrippedInBytesTakesNoMoreMemoryThanItsBytes) {
  const std::size_t before = ::unisono::test::liveBytes();

  for (const char byte : setOf("/k", std::string(20'000, 'v')).bytes().substr(0, 20'000)) {
    server.core.receive(a, {&byte, 1}, server.now);
  }

  EXPECT_LT(::unisono::test::liveBytes() - before, 50'000U);
}

TEST_F(StoreCoreTest, AnIdleConnectionIsCheap) {
  std::vector<ConnectionId> clients;
  const std::string set = setOf("/k", std::string(3000, 'v')).bytes();
  server.send(a, set);
  const std::size_t before = ::unisono::test::liveBytes();
  for (int i = 0; i < 200; ++i) {
    const ConnectionId id = server.core.connectionCount() + 1000;
    server.core.open(id, "10.0.0.1:12345", server.now);
    server.core.receive(id, kHello + set.substr(0, 1500), server.now);
    server.core.receive(id, set.substr(1500) + req(Query::GET).blob("/k").bytes(), server.now);
    server.core.sent(id, server.core.unsent(id).size(), server.now);
  }
  static_cast<void>(server.core.takeTouched());

  EXPECT_LT((::unisono::test::liveBytes() - before) / 200, 2048U);
}

TEST_F(StoreCoreTest, ClosingTwiceOrUnknownConnectionsDoesNothing) {
  server.disconnect(a);
  server.core.close(a);
  server.core.close(4711);
  server.core.receive(a, kHello, server.now);
  server.core.sent(a, 5, server.now);

  EXPECT_EQ(server.core.connectionCount(), 2U);
  EXPECT_EQ(server.core.unsent(a), "");
  EXPECT_EQ(server.core.peer(a), "");
  EXPECT_FALSE(server.core.wantsRead(a));
  EXPECT_EQ(server.core.closing(a), nullptr);
  EXPECT_THAT(server.core.takeTouched(), IsEmpty());
}

TEST_F(StoreCoreTest, BytesBehindTheEndOfAConnectionAreNotLookedAt) {
  server.core.receive(a, "\x7f", server.now);
  server.core.receive(a, setOf("/k", "v").bytes(), server.now);

  EXPECT_EQ(server.core.table().size(), 0U);
  EXPECT_FALSE(server.core.wantsRead(a));
}

}  // namespace
}  // namespace unisono::tcp

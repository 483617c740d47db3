// What the server core lets nobody do: fill its memory, or keep it waiting.
#include <gmock/gmock.h>

#include "base/str.hpp"
#include "store/core_harness.hpp"
#include "support/cpu_time.hpp"
#include "support/memory.hpp"

namespace unisono::tcp {
namespace {

using test::ask;
using test::blob;
using test::CoreHarness;
using test::kHello;
using test::kZero;
using test::pushOf;
using test::req;
using test::setOf;
using test::waitOf;
using ::testing::HasSubstr;
using ::unisono::test::liveBytes;
using ::unisono::test::peakBytes;
using ::unisono::test::resetPeakBytes;

constexpr std::size_t kMiB = 1024 * 1024;

RequestWriter manyTimes(Query query, bool answered, std::string_view key, std::size_t times) {
  RequestWriter writer;
  writer.begin(query, answered).i64(static_cast<std::int64_t>(times));
  for (std::size_t i = 0; i < times; ++i) {
    writer.blob(key);
  }
  return writer;
}

TEST(StoreCoreLimitsTest, OverLimitRequestsCloseAndChangeNothing) {
  const StoreLimits limits{.keyBytes = 8, .valueBytes = 8, .keysPerCommand = 2};
  const RequestWriter requests[] = {
      setOf("/12345678", ""), setOf("/k", "123456789"), waitOf({"/a", "/b", "/c"}),
      req(Query::MULTI_SET).i64(3).blob("/k").blob("v"), req(Query::ADD).blob("/12345678").i64(1)};
  for (const RequestWriter& request : requests) {
    CoreHarness server(limits);
    const ConnectionId client = server.connect();
    server.send(client, request);
    EXPECT_EQ(server.reason(client), Reason::LIMIT);
    EXPECT_EQ(server.take(client), "");
    EXPECT_EQ(server.core.table().contentBytes(), 0U);
  }
}

TEST(StoreCoreLimitsTest, OverLimitAnsweredRequestsAreToldWhyBeforeTheyAreClosed) {
  CoreHarness server({.valueBytes = 8});
  const ConnectionId client = server.connect();

  server.send(client, ask(Query::SET).blob("/k").blob("123456789"));

  const std::string reply = server.take(client);
  EXPECT_EQ(reply.front(), '\2');
  EXPECT_THAT(reply, HasSubstr("LIMIT"));
  EXPECT_THAT(reply, HasSubstr("the limit is 8"));
  EXPECT_EQ(server.reason(client), Reason::LIMIT);
}

TEST(StoreCoreLimitsTest, AFullStoreRefusesWritesAndServesReads) {
  CoreHarness server({.contentBytes = 1000});
  const ConnectionId writer = server.connect();
  const ConnectionId reader = server.connect();
  const ConnectionId stock = server.connect();
  const ConnectionId waiter = server.connect();
  server.send(writer, setOf("/k", std::string(800, 'v')));

  EXPECT_THAT(server.ask(writer, ask(Query::SET)
                                     .blob("/l")
                                     .blob("0123456789012345678901234567890"
                                           "0123456789012345678901234567890"
                                           "0123456789012345678901234567890"
                                           "01234567890")),
              HasSubstr("LIMIT"));
  server.send(stock, setOf("/l", std::string(200, 'v')));
  EXPECT_EQ(server.reason(stock), Reason::LIMIT);
  EXPECT_THAT(server.ask(waiter, manyTimes(Query::WAIT, true, std::string(200, 'w'), 1)),
              HasSubstr("LIMIT"));
  EXPECT_EQ(server.ask(reader, req(Query::GET).blob("/k")).size(), 808U);
  EXPECT_EQ(server.ask(waiter, waitOf({"/k"})), kZero);
}

TEST(StoreCoreLimitsTest, AListingThatIsTooLongIsRefusedToThoseWhoWantAnAnswer) {
  CoreHarness server({.unsentBytes = 400});
  const ConnectionId native = server.connect();
  const ConnectionId stock = server.connect();
  server.send(native, setOf("/k", "v"));
  const std::string listing = test::i64(1) + blob("/k");
  EXPECT_EQ(server.ask(native, ask(Query::LIST_KEYS)), kZero + listing);
  EXPECT_EQ(server.ask(stock, req(Query::LIST_KEYS)), listing);
  server.send(native, setOf("/" + std::string(400, 'k'), "v"));

  EXPECT_THAT(server.ask(native, ask(Query::LIST_KEYS)), HasSubstr("LIMIT"));
  server.send(stock, req(Query::LIST_KEYS));

  EXPECT_TRUE(server.isOpen(native));
  EXPECT_EQ(server.reason(stock), Reason::LIMIT);
}

TEST(StoreCoreLimitsTest, AHugeReplyIsRefusedBeforeItIsBuilt) {
  CoreHarness server;
  const ConnectionId stock = server.connect();
  const ConnectionId native = server.connect();
  const ConnectionId late = server.connect();
  const RequestWriter few = manyTimes(Query::MULTI_GET, true, "/k", 100);
  const RequestWriter stockMany = manyTimes(Query::MULTI_GET, false, "/k", 131'072);
  const RequestWriter many = manyTimes(Query::MULTI_GET, true, "/k", 131'072);
  ASSERT_EQ(server.ask(late, few), "");
  server.send(native, setOf("/k", std::string(8 * kMiB, 'v')));
  const std::size_t before = liveBytes();
  resetPeakBytes();

  EXPECT_THAT(server.take(late), HasSubstr("LIMIT"));  // it waited, and the wake was refused
  EXPECT_THAT(server.ask(native, many), HasSubstr("LIMIT"));
  server.send(stock, stockMany);

  EXPECT_LT(peakBytes() - before, 24 * kMiB);
  EXPECT_EQ(server.reason(stock), Reason::LIMIT);
  EXPECT_TRUE(server.isOpen(late));
  EXPECT_EQ(server.ask(native, req(Query::GET).blob("/k")).size(), 8 * kMiB + 8);
}

TEST(StoreCoreLimitsTest, PipelinedRepliesDoNotPassTheLimitEither) {
  const std::string value(kMiB, 'v');
  const RequestWriter requests[] = {req(Query::GET).blob("/k"),
                                    req(Query::COMPARE_SET).blob("/k").blob("x").blob("y"),
                                    ask(Query::COMPARE_SET).blob("/k").blob("x").blob("y"),
                                    ask(Query::GET).blob("/k"),
                                    req(Query::QUEUE_POP).blob("/q"),
                                    ask(Query::QUEUE_POP).blob("/q")};
  for (const RequestWriter& request : requests) {
    CoreHarness server({.unsentBytes = 4 * kMiB});
    const ConnectionId other = server.connect();
    const ConnectionId client = server.connect();
    server.send(other, setOf("/k", value));
    for (int i = 0; i < 20; ++i) {
      server.send(other, pushOf("/q", value));
    }
    std::string requestsInOnePiece;
    for (int i = 0; i < 1000; ++i) {
      requestsInOnePiece += request.bytes();
    }
    resetPeakBytes();
    const std::size_t before = liveBytes();

    server.core.receive(client, requestsInOnePiece, server.now);

    EXPECT_LT(peakBytes() - before, 20 * kMiB);  // strings grow by doubling
    EXPECT_LE(server.core.unsentBytes(), 6 * kMiB);
    server.pump();
    EXPECT_TRUE(server.isOpen(other));
  }
}

TEST(StoreCoreLimitsTest, AReplyForWhichThereIsNoMemoryEndsTheConnectionOfItsReaderOnly) {
  CoreHarness server;
  const ConnectionId setter = server.connect();
  const ConnectionId large = server.connect();
  const ConnectionId small = server.connect();
  server.send(setter, setOf("/a", std::string(kMiB, 'v')));
  server.send(large, manyTimes(Query::MULTI_GET, true, "/a", 10).bytes());
  server.take(large);
  RequestWriter both = ask(Query::MULTI_GET).keys(std::vector<std::string>{"/a", "/a", "/b"});
  ASSERT_EQ(server.ask(large, both), "");
  ASSERT_EQ(server.ask(small, waitOf({"/b"})), "");
  {
    const ::unisono::test::AllocationLimit limit(kMiB);
    server.core.receive(setter, setOf("/b", "v").bytes(), server.now);
  }
  server.pump();

  EXPECT_EQ(server.take(small), kZero);
  EXPECT_EQ(server.reason(large), Reason::RESOURCE);
  EXPECT_TRUE(server.isOpen(setter));
}

/// Seconds that a server takes to list and delete a key a thousand times when others wait for
/// `names` names.
double secondsToList(int names) {
  CoreHarness server;
  const ConnectionId waiter = server.connect();
  const ConnectionId client = server.connect();
  RequestWriter wait;
  wait.begin(Query::WAIT).i64(names);
  for (int i = 0; i < names; ++i) {
    wait.blob(str("/waited/", i));
  }
  server.send(waiter, wait);
  std::string requests;
  for (int i = 0; i < 1000; ++i) {
    requests += setOf("/k", "v").bytes() + req(Query::LIST_KEYS).bytes() +
                ask(Query::DELETE_PREFIX).blob("/").bytes();
  }
  const double start = ::unisono::test::cpuSeconds();
  server.send(client, requests);
  const double seconds = ::unisono::test::cpuSeconds() - start;
  EXPECT_EQ(server.take(client).size(), 1000U * (8 + 8 + 2 + 1 + 8));
  return seconds;
}

TEST(StoreCoreLimitsTest, ListingAndDeletingDoNotCostALookAtEverybodysNames) {
  EXPECT_LT(secondsToList(50'000), 30 * secondsToList(50));  // 1000 times as many
}

TEST(StoreCoreLimitsTest, ASlowReaderIsNotReadFromUntilItHasTakenItsReplies) {
  CoreHarness server({.unsentPause = 1000});
  const ConnectionId slow = server.connect();
  server.send(slow, setOf("/k", std::string(990, 'v')));
  server.stopTaking(slow);

  server.send(slow, req(Query::GET).blob("/k"));
  EXPECT_TRUE(server.core.wantsRead(slow));
  server.send(slow, req(Query::GET).blob("/k"));
  EXPECT_FALSE(server.core.wantsRead(slow));
  EXPECT_EQ(server.core.unsentBytes(), 2 * 998U);

  server.takeAgain(slow);
  EXPECT_TRUE(server.core.wantsRead(slow));
  EXPECT_EQ(server.core.unsentBytes(), 0U);
}

TEST(StoreCoreLimitsTest, RequestsInOnePieceAreCarriedOutAsTheirRepliesAreTaken) {
  CoreHarness server({.unsentPause = 1000});
  const ConnectionId slow = server.connect();
  const ConnectionId other = server.connect();
  server.send(slow, setOf("/k", std::string(990, 'v')));
  server.stopTaking(slow);
  std::string piece;
  for (int i = 0; i < 1000; ++i) {
    piece += req(Query::GET).blob("/k").bytes();
  }
  piece += setOf("/last", "v").bytes();

  server.core.receive(slow, piece, server.now);
  EXPECT_EQ(server.core.unsentBytes(), 2 * 998U) << "it asked for a thousand";
  EXPECT_FALSE(server.core.wantsRead(slow));
  EXPECT_EQ(server.ask(other, req(Query::CHECK).keys(std::array{std::string("/last")})), "\x01");

  for (int i = 0; i < 1000; ++i) {
    ASSERT_LE(server.core.unsentBytes(), 2 * 998U);
    server.core.sent(slow, 998, server.now);
  }
  EXPECT_EQ(server.core.unsentBytes() + server.core.partialBytes(), 0U);
  EXPECT_TRUE(server.core.wantsRead(slow));
  EXPECT_EQ(server.ask(other, req(Query::CHECK).keys(std::array{std::string("/last")})), kZero);
}

TEST(StoreCoreLimitsTest, AllSlowReadersTogetherAreNotReadFromBeyondATotal) {
  CoreHarness server({.unsentPause = 10'000, .unsentTotal = 2000});
  const ConnectionId quick = server.connect();
  const ConnectionId a = server.connect();
  const ConnectionId b = server.connect();
  server.send(quick, setOf("/k", std::string(1000, 'v')));
  for (const ConnectionId id : {a, b}) {
    server.stopTaking(id);
    server.send(id, req(Query::GET).blob("/k"));
  }

  EXPECT_FALSE(server.core.wantsRead(a));
  EXPECT_FALSE(server.core.wantsRead(b));
  EXPECT_TRUE(server.core.wantsRead(quick));
  server.takeAgain(a);
  EXPECT_TRUE(server.core.wantsRead(b));
}

TEST(StoreCoreLimitsTest, AReaderThatTakesNothingForTooLongIsClosed) {
  CoreHarness server;
  const ConnectionId stalled = server.connect();
  const ConnectionId waiting = server.connect();
  server.send(waiting, waitOf({"/never"}));
  server.stopTaking(stalled);
  server.pass(std::chrono::seconds(100));
  server.send(stalled, req(Query::PING).u32(1));

  server.pass(std::chrono::seconds(30));
  EXPECT_TRUE(server.isOpen(stalled));
  server.pass(std::chrono::seconds(2));

  EXPECT_EQ(server.reason(stalled), Reason::TIMEOUT);
  EXPECT_TRUE(server.isOpen(waiting));  // those who wait may be silent as long as they like
}

TEST(StoreCoreLimitsTest, AReaderThatTakesALittleNowAndThenIsNotClosed) {
  CoreHarness server;
  const ConnectionId slow = server.connect();
  server.send(slow, setOf("/k", std::string(1000, 'v')));
  server.stopTaking(slow);
  server.send(slow, req(Query::GET).blob("/k"));

  for (int i = 0; i < 10; ++i) {
    server.pass(std::chrono::seconds(29));
    server.core.sent(slow, 10, server.now);
  }

  EXPECT_TRUE(server.isOpen(slow));
  EXPECT_EQ(server.core.unsentBytes(), 908U);
  EXPECT_EQ(server.core.unsent(slow).size(), 908U);
}

TEST(StoreCoreLimitsTest, RepliesThatWereTakenAreForgottenAlsoWhenMoreKeepComing) {
  CoreHarness server;
  const ConnectionId slow = server.connect();
  server.send(slow, setOf("/k", std::string(1000, 'v')));
  server.core.receive(slow, req(Query::GET).blob("/k").bytes(), server.now);
  const std::string expected = blob(std::string(1000, 'v'));
  const std::size_t before = liveBytes();

  for (int i = 0; i < 10'000; ++i) {  // 10 MB pass through, but there is always one reply left
    server.core.receive(slow, req(Query::GET).blob("/k").bytes(), server.now);
    ASSERT_EQ(server.core.unsent(slow).substr(0, expected.size()), expected);
    server.core.sent(slow, expected.size(), server.now);
  }

  EXPECT_EQ(server.core.unsentBytes(), expected.size());
  EXPECT_LT(liveBytes() - before, 100'000U);
}

TEST(StoreCoreLimitsTest, ALargeReplyIsForgottenOnceItIsSent) {
  CoreHarness server;
  const ConnectionId client = server.connect();
  server.send(client, setOf("/k", std::string(kMiB, 'v')));
  const std::size_t before = liveBytes();

  server.core.receive(client, req(Query::GET).blob("/k").bytes(), server.now);
  server.core.sent(client, server.core.unsent(client).size(), server.now);

  EXPECT_LT(liveBytes() - before, 10'000U);
}

TEST(StoreCoreLimitsTest, ARequestThatStopsInTheMiddleIsClosedAfterATime) {
  CoreHarness server;
  const ConnectionId stalled = server.connect();
  const ConnectionId dripping = server.connect();
  const ConnectionId idle = server.connect();
  const std::string request = setOf("/k", std::string(100, 'v')).bytes();
  server.pass(std::chrono::seconds(100));
  server.send(stalled, request.substr(0, 20));

  for (std::size_t i = 0; i < 5; ++i) {
    server.send(dripping, request.substr(i, 1));
    server.pass(std::chrono::seconds(29));
    EXPECT_EQ(server.isOpen(stalled), i == 0);
  }

  EXPECT_EQ(server.reason(stalled), Reason::TIMEOUT);
  EXPECT_TRUE(server.isOpen(dripping));
  EXPECT_TRUE(server.isOpen(idle));
}

TEST(StoreCoreLimitsTest, ARequestBegunWithTheHelloHasItsFullTime) {
  CoreHarness server;
  const ConnectionId client = server.open();
  server.pass(Milliseconds(4900));
  server.send(client, kHello + setOf("/k", "v").bytes().substr(0, 3));

  server.pass(std::chrono::seconds(29));

  EXPECT_TRUE(server.isOpen(client));
}

TEST(StoreCoreLimitsTest, WhoHoldsMostOfTheIncompleteRequestsIsNotReadFromForAWhile) {
  CoreHarness server({.partialTotal = 10'000});
  const ConnectionId greedy = server.connect();
  const ConnectionId modest = server.connect();
  const std::string large = setOf("/k", std::string(20'000, 'v')).bytes();
  const std::string small = setOf("/s", std::string(100, 'v')).bytes();
  server.send(greedy, large.substr(0, 9990));
  EXPECT_TRUE(server.core.wantsRead(greedy));

  server.send(modest, small.substr(0, 60));

  EXPECT_FALSE(server.core.wantsRead(greedy));
  EXPECT_TRUE(server.core.wantsRead(modest));
  server.send(modest, small.substr(60));
  EXPECT_EQ(server.core.table().size(), 1U);
  EXPECT_TRUE(server.core.wantsRead(greedy)) << "nobody else has anything to complete";
  server.send(greedy, large.substr(9990, 1000));
  EXPECT_TRUE(server.core.wantsRead(greedy));
  server.send(greedy, large.substr(10'990));
  EXPECT_EQ(server.core.table().size(), 2U);
  EXPECT_EQ(server.core.partialBytes(), 0U);
}

TEST(StoreCoreLimitsTest, EverybodysRequestIsCompleteInTheEndHoweverManyAreSentAtOnce) {
  constexpr std::size_t kPiece = 100;
  CoreHarness server({.partialTotal = 10'000});
  std::vector<std::pair<ConnectionId, std::string>> clients;
  for (int i = 0; i < 15; ++i) {
    clients.emplace_back(server.connect(), setOf(str("/", i), std::string(1000, 'v')).bytes());
  }
  for (int round = 0; round < 1000 && server.core.table().size() < clients.size(); ++round) {
    for (auto& [id, left] : clients) {
      if (!left.empty() && server.core.wantsRead(id)) {
        const std::string piece = left.substr(0, kPiece);
        left.erase(0, kPiece);
        server.send(id, piece);
      }
    }
  }

  EXPECT_EQ(server.core.table().size(), clients.size());
}

TEST(StoreCoreLimitsTest, WhoIsNotReadFromIsNotBlamedForItsSilence) {
  CoreHarness server({.partialTotal = 10'000});
  const ConnectionId greedy = server.connect();
  const ConnectionId modest = server.connect();
  server.send(greedy, setOf("/k", std::string(20'000, 'v')).bytes().substr(0, 9990));
  server.pass(std::chrono::seconds(20));
  server.send(modest, setOf("/s", std::string(100, 'v')).bytes().substr(0, 60));
  server.disconnect(modest);
  ASSERT_TRUE(server.core.wantsRead(greedy));

  server.pass(std::chrono::seconds(20));

  EXPECT_TRUE(server.isOpen(greedy));
}

TEST(StoreCoreLimitsTest, IncompleteRequestsOfAllTogetherStayWithinTheirLimit) {
  CoreHarness server({.partialTotal = 100'000});
  const std::string large = setOf("/k", std::string(20'000, 'v')).bytes();
  for (int i = 0; i < 50; ++i) {
    server.send(server.connect(), large.substr(0, 19'000));
    EXPECT_LE(server.core.partialBytes(), 125'000U);
  }
  EXPECT_EQ(server.core.connectionCount(), 6U);
}

}  // namespace
}  // namespace unisono::tcp

// The real servers, over real connections; everything is promised for both.
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <gmock/gmock.h>
#include <memory>
#include <poll.h>
#include <set>
#include <sys/resource.h>
#include <thread>

#include "base/str.hpp"
#include "net/net_support.hpp"
#include "store/expect.hpp"
#include "store/raw_client.hpp"
#include "store/running_server.hpp"
#include "support/memory.hpp"
#include "support/support.hpp"

namespace unisono::tcp {
namespace {

using test::ask;
using test::blob;
using test::i64;
using test::kHello;
using test::kOne;
using test::kZero;
using test::pushOf;
using test::RawClient;
using test::req;
using test::setOf;
using test::waitOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::unisono::test::AllocationLimit;
using ::unisono::test::Child;
using ::unisono::test::eventually;
using ::unisono::test::FailingAllocation;
using ::unisono::test::LogCapture;
using ::unisono::test::ScopedEnv;

constexpr std::size_t kMiB = 1024 * 1024;

std::vector<std::string> linesWith(const LogCapture& log, std::string_view text) {
  std::vector<std::string> found = log.lines();
  std::erase_if(found, [&](const std::string& line) { return line.find(text) == line.npos; });
  return found;
}

std::size_t openDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

class StoreServerTest : public testing::TestWithParam<bool>, protected test::RunningServer {
 protected:
  StoreServerTest() : RunningServer(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Loops, StoreServerTest, testing::Values(true, false),
                         [](const auto& loop) { return loop.param ? "Libuv" : "Poll"; });

TEST_P(StoreServerTest, ServesAClient) {
  start();
  RawClient client = connect();

  EXPECT_TRUE(client.served());
  EXPECT_TRUE(client.send(setOf("/k", "value")));
  EXPECT_EQ(client.ask(req(Query::GET).blob("/k"), 13), blob("value"));
  EXPECT_EQ(server->connectionCount(), 1U);
  EXPECT_EQ(server->useLibUv(), GetParam());
}

TEST_P(StoreServerTest, WhoWaitsForANumberIsWokenWhenItIsReached) {
  start();
  const std::shared_ptr<Waitable> two = server->counting("/n", 2);
  std::thread others([this] {
    RawClient client = connect();
    client.ask(req(Query::ADD).blob("/n").i64(1), 8);
    client.ask(req(Query::ADD).blob("/n").i64(1), 8);
  });
  const TimePoint begin = systemClock().now();

  two->sleep(std::chrono::minutes(5));

  EXPECT_LT(elapsedSince(begin), std::chrono::minutes(1));
  EXPECT_EQ(connect().ask(req(Query::GET).blob("/n"), 9), blob("2"));
  others.join();
}

TEST_P(StoreServerTest, ClosesStrangersAtOnceAndSaysSoOnce) {
  const std::pair<std::string, std::string> strangers[] = {
      {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"},
      {test::hex("16 03 01 02 00 01 00 01 fc 03 03"), "TLS"}};
  for (const auto& [bytes, named] : strangers) {
    const LogCapture log;
    start();
    for (int i = 0; i < 5; ++i) {
      RawClient stranger(server->address());
      ASSERT_TRUE(stranger.send(bytes));
      EXPECT_TRUE(stranger.ended());
    }
    server.reset();
    EXPECT_THAT(linesWith(log, str("it speaks ", named)), SizeIs(1));
    EXPECT_THAT(log.lines(), SizeIs(1));
  }
}

TEST_P(StoreServerTest, KeepsAClientThatLivesButDoesNotReadItsReplies) {
  const ScopedEnv env("UNISONO_NET_DEAD_MS", "1000");
  start();
  RawClient client = connect(4096);
  const std::string value(kMiB, 'v');
  ASSERT_TRUE(client.send(setOf("/k", value)));
  ASSERT_TRUE(client.send(req(Query::GET).blob("/k")));

  pollfd end{.fd = client.fd(), .events = POLLRDHUP, .revents = 0};
  EXPECT_EQ(::poll(&end, 1, 3000), 0) << "the server ended the connection";

  EXPECT_TRUE(client.receive(8 + kMiB) == blob(value));
  EXPECT_TRUE(client.served());
}

TEST_P(StoreServerTest, EndsTheConnectionToAHostThatIsGone) {
  const LogCapture log;
  const ScopedEnv env("UNISONO_NET_DEAD_MS", "1000");
  start();
  RawClient other = connect();
  RawClient client = connect();
  ASSERT_TRUE(client.served());
  ASSERT_TRUE(client.send(waitOf({"/k"})));
  ::unisono::test::playDead(client.fd());
  ASSERT_TRUE(other.send(setOf("/k", "v")));  // from now on there is a reply to acknowledge

  EXPECT_TRUE(eventually([&] { return server->connectionCount() == 1; }));
  EXPECT_TRUE(other.served());
  server.reset();
  EXPECT_THAT(linesWith(log, "acknowledged nothing for"), SizeIs(1));
}

TEST_P(StoreServerTest, OthersAreServedBetweenRequestsThatTakeLong) {
  constexpr int kClients = 10;
  constexpr int kRequests = 4;
  constexpr int kKeys = 8'000;
  start();
  RawClient modest = connect();
  std::atomic<int> busy{kClients};
  std::vector<std::jthread> greedy;
  for (int i = 0; i < kClients; ++i) {
    greedy.emplace_back([&, i, client = connect()]() mutable {
      RequestWriter request;
      request.begin(Query::MULTI_SET).i64(kKeys);
      for (int k = 0; k < kKeys; ++k) {
        request.blob(str("/", i, "/", k)).blob("");
      }
      request.begin(Query::PING).u32(0);
      std::string all;
      for (int round = 0; round < kRequests; ++round) {
        all += request.bytes();
      }
      EXPECT_TRUE(client.send(all));
      EXPECT_EQ(client.receive(4 * kRequests).size(), std::size_t{4 * kRequests});
      --busy;
    });
  }
  int served = 0;
  while (busy.load() > 0 && modest.served()) {
    ++served;
  }

  // Without turns it would be one answer for all of them at a time: one for each of kRequests.
  EXPECT_GE(served, kClients);
  EXPECT_EQ(busy.load(), 0);
}

TEST_P(StoreServerTest, OthersAreServedWhileManyKeysAreDeleted) {
  constexpr std::int64_t kKeys = 50'000;
  start();
  RawClient modest = connect();
  RawClient deleting = connect();
  RequestWriter set;
  set.begin(Query::MULTI_SET).i64(kKeys);
  for (std::int64_t i = 0; i < kKeys; ++i) {
    set.blob(str("/p/", i)).blob("");
  }
  ASSERT_TRUE(deleting.send(set) && deleting.served());
  ASSERT_TRUE(
      deleting.send(ask(Query::DELETE_PREFIX).blob("/p/").bytes() + req(Query::NUM_KEYS).bytes()));
  pollfd answer{.fd = deleting.fd(), .events = POLLIN, .revents = 0};
  int served = 0;
  while (::poll(&answer, 1, 0) == 0 && modest.served()) {
    ++served;
  }

  EXPECT_GE(served, 5);  // in one go it would be one or two
  EXPECT_EQ(deleting.receive(17), kZero + i64(kKeys) + i64(0));
}

TEST_P(StoreServerTest, AWaitForManyKeysEndsWithoutAnythingElseHappening) {
  start();
  RawClient client = connect();
  std::vector<std::string> keys;
  RequestWriter set;
  set.begin(Query::MULTI_SET).i64(5000);
  for (int i = 0; i < 5000; ++i) {
    keys.push_back(str("/", i));
    set.blob(keys.back()).blob("v");
  }
  ASSERT_TRUE(client.send(set));
  EXPECT_EQ(client.ask(waitOf(keys), 1), kZero);
  EXPECT_EQ(client.ask(ask(Query::MULTI_GET).keys(keys), 1 + 9 * 5000).size(), 1U + 9 * 5000);
}

TEST_P(StoreServerTest, ClosesWhoSaysNothingOrStopsInTheMiddle) {
  start({.helloTime = Milliseconds(500), .stalledCommand = Milliseconds(500)});
  RawClient silent(server->address());
  RawClient stalled = connect();
  RawClient idle = connect();
  ASSERT_TRUE(stalled.send(setOf("/k", "value").bytes().substr(0, 10)));

  EXPECT_TRUE(silent.ended());
  EXPECT_TRUE(stalled.ended());
  EXPECT_TRUE(idle.served());
}

TEST_P(StoreServerTest, SilentAndDrippingClientsStallNobody) {
  start();
  std::vector<RawClient> silent(100);
  for (RawClient& client : silent) {
    client = RawClient(server->address());
  }
  std::vector<RawClient> dripping = connectMany(100);
  const std::string request = setOf("/k", std::string(1000, 'v')).bytes();
  RawClient honest = connect();

  for (std::size_t byte = 0; byte < 20; ++byte) {
    for (RawClient& client : dripping) {
      ASSERT_TRUE(client.send(request.substr(byte, 1)));
    }
    ASSERT_EQ(honest.ask(req(Query::ADD).blob("/n").i64(1), 8),
              i64(static_cast<std::int64_t>(byte) + 1));
  }

  EXPECT_TRUE(dripping.front().send(request.substr(20)));
  EXPECT_TRUE(dripping.front().served());
}

TEST_P(StoreServerTest, AClientThatReadsNothingStallsNobodyAndLosesNothing) {
  start();
  RawClient honest = connect();
  RawClient deaf = connect(16 * 1024);
  ASSERT_TRUE(honest.send(setOf("/k", std::string(100'000, 'v'))));
  ASSERT_TRUE(honest.served());
  const RequestWriter get = req(Query::GET).blob("/k");

  std::size_t asked = 0;
  while (asked < 200 && deaf.sendSome(get.bytes()) == get.bytes().size()) {
    ++asked;
    ASSERT_TRUE(honest.served());
  }

  ASSERT_EQ(asked, 200U);  // small requests: the kernel takes them all
  const std::string reply = blob(std::string(100'000, 'v'));
  for (std::size_t i = 0; i < asked; ++i) {
    ASSERT_EQ(deaf.receive(reply.size()), reply);
  }
  EXPECT_TRUE(deaf.served());
}

TEST_P(StoreServerTest, ARequestAndItsReplyMayBothExceedTheSocketBuffers) {
  start();
  RawClient client = connect();
  RequestWriter set;
  RequestWriter get;
  set.begin(Query::MULTI_SET).i64(3000);
  get.begin(Query::MULTI_GET).i64(3000);
  std::string expected;
  for (int i = 0; i < 3000; ++i) {
    const std::string key = str("/", i, std::string(6000, 'k'));
    const std::string value = str(i, std::string(10'000, 'v'));
    set.blob(key).blob(value);
    get.blob(key);
    expected += blob(value);
  }
  ASSERT_TRUE(client.send(set));
  // Twice in a row: the second request goes out while the first reply comes in.
  std::thread sender([&] { EXPECT_TRUE(client.send(get) && client.send(get)); });

  EXPECT_TRUE(client.receive(expected.size()) == expected);
  EXPECT_TRUE(client.receive(expected.size()) == expected);
  sender.join();
}

TEST_P(StoreServerTest, ManyClientsMeetThroughTheirKeys) {
  start();
  std::vector<RawClient> clients = connectMany(128);
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    keys.push_back(str("/rank", i));
  }

  for (std::size_t i = 0; i < clients.size(); ++i) {
    ASSERT_TRUE(clients[i].send(setOf(keys[i], str(i)).bytes() + waitOf(keys).bytes()));
  }

  for (RawClient& client : clients) {
    ASSERT_EQ(client.receive(1), kZero);
  }
  EXPECT_EQ(clients[3].ask(req(Query::GET).blob("/rank77"), 10), blob("77"));
}

TEST_P(StoreServerTest, AnswersManyWhoAskAtOnceThoughSomeAreClosedMeanwhile) {
  start();
  const LogCapture log;
  std::vector<RawClient> clients = connectMany(300);
  const auto isBad = [](std::size_t i) { return i % 3 == 0; };

  for (std::size_t i = 0; i < clients.size(); ++i) {
    ASSERT_TRUE(isBad(i) ? clients[i].send("\xff")
                         : clients[i].send(req(Query::ADD).blob("/n").i64(1)));
  }

  std::set<std::string> sums;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (isBad(i)) {
      EXPECT_TRUE(clients[i].ended());
    } else {
      sums.insert(clients[i].receive(8));
    }
  }
  std::set<std::string> expected;
  for (std::int64_t sum = 1; sum <= 200; ++sum) {
    expected.insert(i64(sum));
  }
  EXPECT_EQ(sums, expected);
}

TEST_P(StoreServerTest, OneSetWakesThousands) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < 4200) {
    GTEST_SKIP() << "needs 4200 descriptors, but the limit is " << limit.rlim_max;
  }
  start();
  std::vector<RawClient> waiters = connectMany(2000);
  for (RawClient& waiter : waiters) {
    ASSERT_TRUE(waiter.send(waitOf({"/k"})));
  }
  for (RawClient& waiter : waiters) {
    ASSERT_TRUE(waiter.served());  // so its wait has begun
  }
  RawClient setter = connect();

  ASSERT_TRUE(setter.send(setOf("/k", "v")));

  for (RawClient& waiter : waiters) {
    ASSERT_EQ(waiter.receive(1), kZero);
  }
  EXPECT_EQ(server->connectionCount(), 2001U);
}

TEST_P(StoreServerTest, ASetterDoesNotNoticeWaitersThatAreGone) {
  start();
  RawClient setter = connect();
  for (int i = 0; i < 50; ++i) {
    const std::string key = str("/k", i);
    RawClient waiter = connect();
    ASSERT_TRUE(waiter.send(waitOf({key})));
    ASSERT_TRUE(waiter.served());
    RawClient patient = connect();
    ASSERT_TRUE(patient.send(waitOf({key})));
    ASSERT_TRUE(patient.served());

    waiter.reset();
    ASSERT_TRUE(setter.send(setOf(key, "v")));

    EXPECT_EQ(patient.receive(1), kZero);
    ASSERT_TRUE(setter.served());
  }
}

TEST_P(StoreServerTest, ARefusalOfAnAnsweredRequestArrivesBeforeTheConnectionEnds) {
  start();
  RawClient client = connect();
  RequestWriter tooLong = ask(Query::SET).blob("/k").i64(8'388'609);

  EXPECT_TRUE(client.send(tooLong.bytes() + std::string(100'000, 'v')));

  EXPECT_EQ(client.receive(14), "\2" + blob("LIMIT"));
  EXPECT_TRUE(client.ended());
}

TEST_P(StoreServerTest, WarnsOnceBeforeItIsFull) {
  const LogCapture log;
  start({.contentBytes = 10'000});
  RawClient client = connect();
  ASSERT_TRUE(client.send(setOf("/k", std::string(7000, 'x'))));
  EXPECT_TRUE(client.served());
  EXPECT_THAT(linesWith(log, "nearly full"), SizeIs(0));

  for (const std::size_t size : {8500U, 7000U, 8500U}) {
    ASSERT_TRUE(client.send(setOf("/k", std::string(size, 'x'))));
    EXPECT_TRUE(eventually([&] { return !linesWith(log, "nearly full").empty(); }));
  }

  server.reset();
  EXPECT_THAT(linesWith(log, "nearly full"), ElementsAre(HasSubstr("UNISONO_STORE_MAX_BYTES")));
}

TEST_P(StoreServerTest, ListensOnlyWhereItsHostIs) {
  start();
  const std::uint16_t port = server->port();

  EXPECT_EQ(server->address().text(), str("127.0.0.1:", port));
  EXPECT_FALSE(RawClient(SocketAddress::parse("127.0.0.2", port).value()).connected());

  start({}, "127.0.0.2");
  EXPECT_TRUE(RawClient(SocketAddress::parse("127.0.0.2", server->port()).value()).connected());
}

TEST_P(StoreServerTest, RefusesToListenBeyondLoopbackWithoutPermission) {
  const auto startOpenly = [this] { start({}, "0.0.0.0"); };
  const std::string text = ::unisono::test::textOf<DistNetworkError>(startOpenly);
  EXPECT_THAT(text, AllOf(HasSubstr("[CONFIG]"), HasSubstr("UNISONO_ALLOW_UNAUTHENTICATED=1")));
  {
    const ScopedEnv bind("UNISONO_STORE_BIND", "any");
    EXPECT_EQ(::unisono::test::reasonOf<DistNetworkError>([this] { start(); }), Reason::CONFIG);
  }

  const ScopedEnv permission("UNISONO_ALLOW_UNAUTHENTICATED", "1");
  startOpenly();
  EXPECT_TRUE(server->address().isLoopback());
  EXPECT_TRUE(connect().served());
  EXPECT_TRUE(RawClient(SocketAddress::parse("127.0.0.2", server->port()).value()).connected());
}

TEST_P(StoreServerTest, StopsQuicklyHoweverManyAreConnected) {
  start();
  std::vector<RawClient> clients = connectMany(50);
  for (std::size_t i = 0; i < clients.size(); ++i) {
    ASSERT_TRUE(clients[i].send(i % 2 == 0 ? waitOf({"/never"}).bytes() : std::string("\1")));
  }
  ASSERT_TRUE(connect().served());
  const TimePoint before = systemClock().now();

  server.reset();

  EXPECT_LT(elapsedSince(before), Milliseconds(2000));
  for (RawClient& client : clients) {
    EXPECT_TRUE(client.ended());
  }
}

TEST_P(StoreServerTest, LeavesNoDescriptorsBehind) {
  start();  // whatever is opened once per process
  server.reset();
  const std::size_t before = openDescriptors();

  for (int round = 0; round < 3; ++round) {
    start();
    std::vector<RawClient> clients = connectMany(30);
    for (std::size_t i = 0; i < 10; ++i) {
      ASSERT_TRUE(clients[i].send(waitOf({"/never"})));
      clients[i].reset();
      ASSERT_TRUE(clients[10 + i].send("\x7f"));
      EXPECT_TRUE(clients[10 + i].ended());
    }
    ASSERT_TRUE(clients.back().served());
    server.reset();
  }

  EXPECT_EQ(openDescriptors(), before);
}

TEST_P(StoreServerTest, ClosesConnectionsBeyondTheLimitAndServesTheOthers) {
  const LogCapture log;
  start({.connections = 3});
  std::vector<RawClient> clients = connectMany(3);
  for (RawClient& client : clients) {
    ASSERT_TRUE(client.served());
  }

  RawClient tooMany(server->address());
  EXPECT_TRUE(tooMany.ended());
  for (RawClient& client : clients) {
    EXPECT_TRUE(client.served());
  }
  EXPECT_THAT(linesWith(log, "the limit is 3 connections"), SizeIs(1));

  clients.pop_back();
  RawClient next;
  do {
    next = RawClient(server->address());
    ASSERT_TRUE(next.connected());
  } while (!next.hello() || !next.served());  // until the server has noticed that one left
}

TEST_P(StoreServerTest, OutlivesALackOfDescriptors) {
  int port[2];
  ASSERT_EQ(::pipe(port), 0);
  // The server is in a process of its own, so that only it runs out.
  Child child([&](const Child::Tell& tell) {
    const std::size_t open = openDescriptors();
    const rlimit few{.rlim_cur = open + 30, .rlim_max = open + 30};
    if (::setrlimit(RLIMIT_NOFILE, &few) != 0) {
      ::_exit(1);
    }
    start();
    const std::uint16_t number = server->port();
    static_cast<void>(!::write(port[1], &number, sizeof number));
    tell();
  });
  ASSERT_TRUE(child.awaitWord());
  std::uint16_t number = 0;
  ASSERT_EQ(::read(port[0], &number, sizeof number), static_cast<ssize_t>(sizeof number));
  ::close(port[0]);
  ::close(port[1]);
  const SocketAddress address = SocketAddress::loopback(AF_INET, number);

  std::vector<RawClient> clients;
  std::size_t served = 0;
  for (int i = 0; i < 60; ++i) {
    RawClient client(address);
    ASSERT_TRUE(client.connected());
    if (client.hello() && client.served()) {
      ++served;
      clients.push_back(std::move(client));
    }
  }
  EXPECT_GT(served, 5U);
  EXPECT_LT(served, 31U);
  for (RawClient& client : clients) {
    EXPECT_TRUE(client.served());
  }

  clients.clear();
  RawClient late;
  do {
    late = RawClient(address);
    ASSERT_TRUE(late.connected());
  } while (!late.hello() || !late.served());
  EXPECT_EQ(::kill(child.pid(), 0), 0);
}

TEST_P(StoreServerTest, ARequestForWhichThereIsNoMemoryEndsItsConnectionOnly) {
  start();
  RawClient large = connect();
  RawClient small = connect();
  const std::string request = setOf("/large", std::string(4 * kMiB, 'v')).bytes();
  {
    const AllocationLimit limit(kMiB);
    static_cast<void>(large.send(request));
    EXPECT_TRUE(large.ended());
    EXPECT_TRUE(small.served());
  }

  RawClient again = connect();
  EXPECT_TRUE(again.send(request));
  EXPECT_EQ(again.ask(req(Query::NUM_KEYS), 8), i64(1));
}

TEST_P(StoreServerTest, OutlivesTheFailureOfAnyAllocation) {
  start();
  const SocketAddress address = server->address();
  const std::string wait = kHello + waitOf({"/a key that is longer than a short string"}).bytes();
  const std::string set = kHello + setOf("/a key that is longer than a short string", "v").bytes() +
                          req(Query::PING).u32(0).bytes();
  const LogCapture log;
  char bytes[8];
  for (int which = 0; which < 60; ++which) {
    // Nothing on this side allocates while it may fail.
    RawClient waiter(address);
    RawClient setter(address);
    {
      const FailingAllocation failing(which);
      static_cast<void>(::send(waiter.fd(), wait.data(), wait.size(), MSG_NOSIGNAL));
      static_cast<void>(::send(setter.fd(), set.data(), set.size(), MSG_NOSIGNAL));
      const ssize_t got = ::recv(setter.fd(), bytes, 4, MSG_WAITALL);
      ASSERT_TRUE(got == 4 || got == 0 || errno == ECONNRESET) << which;  // and not: no answer
    }
    waiter.reset();
    RawClient next = connect();
    ASSERT_TRUE(next.served()) << which;
    ASSERT_EQ(next.ask(req(Query::DELETE_KEY).blob("/a key that is longer than a short string"), 8)
                  .size(),
              8U);
  }
}

}  // namespace
}  // namespace unisono::tcp

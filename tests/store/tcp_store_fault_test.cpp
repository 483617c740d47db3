// What a TCPStore does when its server, its network or other clients fail.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <gmock/gmock.h>
#include <random>
#include <thread>

#include "unisono/base/error.hpp"
#include "unisono/store/prefix_store.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/bytes.hpp"
#include "base/str.hpp"
#include "store/expect.hpp"
#include "store/tcp/connection.hpp"
#include "store/tcp/server.hpp"
#include "support/blocked_call.hpp"
#include "support/bounds.hpp"
#include "support/fake_server.hpp"
#include "support/server_process.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::BlockedCall;
using test::CuttingProxy;
using test::EndsInTime;
using test::errorOf;
using test::eventually;
using test::LogCapture;
using test::Process;
using test::reasonOf;
using test::ServerProcess;
using test::textOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr const char* kHost = "127.0.0.1";

Bytes bytes(std::string_view text) {
  return {text.begin(), text.end()};
}

/// Every call of a store, by name; those that wait for somebody else wait in vain.
std::vector<std::pair<std::string, std::function<void(Store&)>>> allCalls() {
  static const std::vector<std::string> keys = {"never", "at all"};
  return {
      {"get", [](Store& store) { store.get("never"); }},
      {"wait", [](Store& store) { store.wait(keys); }},
      {"multi_get", [](Store& store) { store.multiGet(keys); }},
      {"queue_pop", [](Store& store) { store.queuePop("empty"); }},
      {"barrier", [](Store& store) { store.barrier("b", 1000); }},
      {"add", [](Store& store) { store.add("n", 1); }},
      {"check", [](Store& store) { store.check({"k"}); }},
      {"compare_set", [](Store& store) { store.compareSet("c", "", "v"); }},
      {"delete_key", [](Store& store) { store.deleteKey("k"); }},
      {"delete_prefix", [](Store& store) { store.deletePrefix("none"); }},
      {"num_keys", [](Store& store) { store.numKeys(); }},
      {"list_keys", [](Store& store) { store.listKeys(); }},
      {"queue_len", [](Store& store) { store.queueLen("q"); }},
      {"try_pop", [](Store& store) { store.queuePop("q", false); }},
      {"set and get",
       [](Store& store) {
         store.set("s", "v");
         store.get("s");
       }},
  };
}

/// As EndsInTime, of a call that the server does not answer: it has half a second in any case.
class GivesUpInTime {
 public:
  explicit GivesUpInTime(Milliseconds timeout) : timeout_(timeout) {}
  ~GivesUpInTime() {
    const auto took = elapsedSince(start_);
    EXPECT_GE(took, timeout_) << "it gave up early";
    EXPECT_LE(took, test::latestEnd(std::max(timeout_, tcp::kLeastAnswerTime)));
  }
  GivesUpInTime(const GivesUpInTime&) = delete;
  GivesUpInTime& operator=(const GivesUpInTime&) = delete;

 private:
  const Milliseconds timeout_;
  const TimePoint start_ = systemClock().now();
};

/// A server process of either event loop, and a client here.
class ServerFaultTest : public ::testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<TCPStore> connect(std::chrono::milliseconds timeout) {
    return std::make_unique<TCPStore>(kHost,
                                      TCPStoreOptions{.port = server.port(), .timeout = timeout});
  }

  /// Stops the server, and checks every call at once, each with a client and a thread of its own.
  template <typename Check>
  void eachCallAtAStoppedServer(Check check) {
    std::vector<std::unique_ptr<TCPStore>> clients;
    for (std::size_t i = 0; i < allCalls().size(); ++i) {
      clients.push_back(connect(20s));
    }
    server.stop();
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < clients.size(); ++i) {
      threads.emplace_back([&check, &client = *clients[i], i] {
        const auto call = allCalls()[i];
        SCOPED_TRACE(call.first);
        check(client, call.second);
      });
    }
  }

  ServerProcess server{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Loops, ServerFaultTest, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Uv" : "Poll"; });

TEST_P(ServerFaultTest, NoCallOutlivesItsTimeoutWhileTheServerIsStopped) {
  eachCallAtAStoppedServer([](Store& client, const auto& call) {
    for (const std::chrono::milliseconds timeout : {150ms, 700ms}) {
      client.setTimeout(timeout);
      const GivesUpInTime bound(timeout);
      EXPECT_EQ(reasonOf([&] { call(client); }), Reason::TIMEOUT);
    }
  });
}

TEST_P(ServerFaultTest, ATimeoutOfZeroEndsSoonWhileTheServerIsStopped) {
  eachCallAtAStoppedServer([](Store& client, const auto& call) {
    client.setTimeout(0ms);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(reasonOf([&] { call(client); }), Reason::TIMEOUT);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 1500ms);
  });
}

TEST_P(ServerFaultTest, APrefixedBarrierObeysItsOwnTimeoutWhileTheServerIsStopped) {
  const std::shared_ptr<TCPStore> client = connect(20s);
  PrefixStore prefixed("p", client);
  server.stop();
  const auto start = std::chrono::steady_clock::now();

  EXPECT_THAT(textOf([&] { prefixed.barrier("b", 2, 150ms); }),
              AllOf(HasSubstr("barrier timeout after 150ms, key: b"), HasSubstr("not answer")));

  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s) << "the store's own timeout is 20 s";
  EXPECT_EQ(client->timeout(), 20s) << "it is as it was";
}

TEST_P(ServerFaultTest, TheSameClientGoesOnWhenTheServerDoes) {
  const auto client = connect(300ms);
  client->set("k", "v");
  ASSERT_TRUE(client->check({"k"}));
  for (int round = 1; round <= 3; ++round) {
    server.stop();
    EXPECT_EQ(reasonOf([&] { client->get("never"); }), Reason::TIMEOUT);
    EXPECT_EQ(reasonOf([&] { client->numKeys(); }), Reason::TIMEOUT);
    EXPECT_EQ(reasonOf([&] { client->check({"k"}); }), Reason::TIMEOUT);
    server.resume();

    client->setTimeout(20s);
    EXPECT_EQ(client->getString("k"), "v");
    EXPECT_EQ(client->add("n", 1), round);
    client->setTimeout(300ms);
  }
}

TEST_P(ServerFaultTest, AClientMadeWhileTheServerIsStoppedGivesUpInTime) {
  server.stop();
  const EndsInTime bound(300ms);

  EXPECT_THAT(textOf<DistNetworkError>([&] { connect(300ms); }),
              AllOf(HasSubstr("timed out after 300ms"), HasSubstr("does not answer")));
}

TEST_P(ServerFaultTest, ASlowGreetingDoesNotMakeLaterCallsLate) {
  server.stop();
  BlockedCall connecting([&] { return connect(20s); });
  EXPECT_TRUE(connecting.staysBlocked(1000ms));
  server.resume();
  const auto client = connecting.result();
  server.stop();
  client->setTimeout(150ms);
  const GivesUpInTime bound(150ms);

  EXPECT_EQ(reasonOf([&] { client->get("never"); }), Reason::TIMEOUT);
}

TEST_P(ServerFaultTest, AWaitGoesOnWhileTheServerPauses) {
  const auto client = connect(20s);
  BlockedCall getting([&] { return client->getString("k"); });
  server.stop();
  EXPECT_TRUE(getting.staysBlocked());
  BlockedCall setting([&] { return client->set("k", "v"), true; });
  server.resume();

  EXPECT_TRUE(setting.result());
  EXPECT_EQ(getting.result(), "v");
}

TEST_P(ServerFaultTest, TheDeathOfTheServerEndsAllWaitsAtOnce) {
  const auto client = connect(20s);
  BlockedCall getting([&] { return client->getString("k"); });
  BlockedCall popping([&] { return client->queuePop("q"); });
  const auto start = std::chrono::steady_clock::now();

  server.kill();

  EXPECT_EQ(reasonOf<DistNetworkError>([&] { getting.result(); }), Reason::STORE_LOST);
  EXPECT_EQ(reasonOf<DistNetworkError>([&] { popping.result(); }), Reason::STORE_LOST);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  const std::string first = textOf<DistNetworkError>([&] { client->numKeys(); });
  for (const auto& [name, call] : allCalls()) {
    SCOPED_TRACE(name);
    const auto before = std::chrono::steady_clock::now();
    EXPECT_EQ(textOf<DistNetworkError>([&, &made = call] { made(*client); }), first)
        << "the same error";
    EXPECT_LT(std::chrono::steady_clock::now() - before, 2s);
  }
  EXPECT_EQ(textOf<DistNetworkError>([&] { client->clone(); }), first);
}

TEST_P(ServerFaultTest, ACloneMadeAfterTheDeathOfTheServerIsRefusedSoon) {
  const auto client = connect(20s);
  server.kill();
  const auto start = std::chrono::steady_clock::now();

  EXPECT_EQ(reasonOf<DistNetworkError>([&] { client->clone(); }), Reason::STORE_LOST);
  EXPECT_EQ(reasonOf<DistNetworkError>([&] { client->numKeys(); }), Reason::STORE_LOST);

  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s) << "the store's own timeout is 20 s";
}

TEST_P(ServerFaultTest, AStoreThatGoesDoesNotWaitForItsClone) {
  auto client = connect(50s);
  server.stop();
  BlockedCall cloning([raw = client.get()] { return raw->clone(); });
  const auto start = std::chrono::steady_clock::now();

  client.reset();

  EXPECT_EQ(reasonOf<DistError>([&] { cloning.result(); }), Reason::SHUTDOWN);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

TEST_P(ServerFaultTest, TheDeathOfAStoppedServerIsNoticedAtOnce) {
  const auto client = connect(300ms);
  server.stop();
  EXPECT_EQ(reasonOf([&] { client->numKeys(); }), Reason::TIMEOUT);
  client->setTimeout(20s);
  BlockedCall dialling([&] { return client->numKeys(); });
  server.kill();
  const auto start = std::chrono::steady_clock::now();

  EXPECT_EQ(reasonOf<DistNetworkError>([&] { dialling.result(); }), Reason::STORE_LOST);
  EXPECT_EQ(reasonOf<DistNetworkError>([&] { client->numKeys(); }), Reason::STORE_LOST);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST_P(ServerFaultTest, AWriteAfterTheDeathOfTheServerIsRefusedSoon) {
  const auto client = connect(20s);
  client->set("k", "v");
  server.kill();

  // The first may still go into the void.
  EXPECT_TRUE(eventually([&] {
    try {
      client->set("k", "v");
      return false;
    } catch (const DistNetworkError& error) {
      return error.reason() == Reason::STORE_LOST;
    }
  }));
}

TEST_P(ServerFaultTest, WritesBeforeACallThatIsNotAnsweredAreSeenByTheNextOne) {
  const auto client = connect(20s);
  for (int i = 0; i < 16; ++i) {  // or the kernel would not take in much for a stopped server
    client->set("first", std::string(4'000'000, 'x'));
  }
  ASSERT_TRUE(client->check({"first"}));
  server.stop();
  for (int i = 0; i < 10; ++i) {
    client->set(str("k", i), std::string(60'000, 'x'));
  }
  client->setTimeout(100ms);
  EXPECT_EQ(reasonOf([&] { client->numKeys(); }), Reason::TIMEOUT);
  EXPECT_EQ(reasonOf([&] { client->check({"k9"}); }), Reason::TIMEOUT);
  server.resume();
  client->setTimeout(20s);

  EXPECT_TRUE(client->check({"k9"}));
}

TEST_P(ServerFaultTest, WritesThatAreLostWithAConnectionAreReportedByTheNextCall) {
  CuttingProxy proxy(server.port());
  TCPStore client(kHost, {.port = proxy.port(), .timeout = 20s});
  ASSERT_FALSE(client.check({"k"}));
  server.stop();
  client.set("k", "v");
  client.set("k", "w");
  client.setTimeout(100ms);
  EXPECT_EQ(reasonOf([&] { client.numKeys(); }), Reason::TIMEOUT);
  proxy.cutAll();
  server.resume();
  client.setTimeout(20s);

  const std::string first = textOf<DistNetworkError>([&] { client.numKeys(); });
  EXPECT_THAT(first, AllOf(HasSubstr("[STORE_LOST]"), HasSubstr("the last 2 writes")));
  EXPECT_EQ(textOf<DistNetworkError>([&] { client.check({"k"}); }), first);
}

TEST_P(ServerFaultTest, ACallThatLosesTheStoreSaysWhichWritesWereNotConfirmed) {
  const auto client = connect(20s);
  server.stop();
  client->set("k", "v");
  server.kill();

  EXPECT_THAT(textOf<DistNetworkError>([&] { client->numKeys(); }),
              AllOf(HasSubstr("[STORE_LOST]"), HasSubstr("the last 1 write of this store")));
}

TEST_P(ServerFaultTest, WhatAClientWroteIsDoneAlsoWhenTheClientIsGone) {
  const auto observer = connect(20s);
  const std::string value(100'000, 'x');
  for (const int count : {3000, 30}) {
    auto writer = connect(20s);
    for (int i = 0; i < count; ++i) {
      writer->set(str(count, "/", i), count == 30 ? value : "small");
    }

    writer.reset();

    EXPECT_EQ(observer->deletePrefix(str(count, "/")), count);
  }
}

TEST_P(ServerFaultTest, WhatAKilledClientWroteIsDoneOnceItHasArrived) {
  const auto observer = connect(20s);
  Process writer([&] {
    auto* store = new TCPStore(kHost, {.port = server.port(), .timeout = 20s});
    for (int i = 0; i < 16; ++i) {  // or the kernel would not take in much for a stopped server
      store->set("first", std::string(4'000'000, 'x'));
    }
    store->check({"first"});
    server.stop();
    for (int i = 0; i < 10; ++i) {
      store->set(str("k", i), std::string(60'000, 'x'));
    }
    return 0;  // without destroying the store
  });
  EXPECT_EQ(writer.join(), 0);
  server.resume();

  EXPECT_TRUE(eventually([&] { return observer->numKeys() == 11; })) << observer->numKeys();
}

TEST_P(ServerFaultTest, AClientThatGoesDoesNotWaitLongForAStoppedServer) {
  auto client = connect(20s);
  client->set("k", "v");
  server.stop();
  client->set("k", "w");
  const auto start = std::chrono::steady_clock::now();
  const LogCapture log;

  client.reset();

  // 2 s are promised; the timeout of the client is 20 s.
  EXPECT_LT(std::chrono::steady_clock::now() - start, 12s);
  EXPECT_THAT(log.lines(), ElementsAre(AllOf(HasSubstr("up to 2 of its last writes"),
                                             HasSubstr("does not answer"))));
}

/// One client process: works until it is killed, and ends with 1 when it sees something wrong.
int workForEver(std::uint16_t port, int number) {
  TCPStore store(kHost, {.port = port, .timeout = 20s});
  const std::string own = str("own ", number);
  for (std::int64_t i = 1;; ++i) {
    if (store.add(own, 1) != i) {
      return 1;
    }
    store.set(str("value ", number), std::string(static_cast<std::size_t>(i % 5000), 'x'));
    store.queuePush("q", str(number));
    try {
      store.wait({str("never ", number)}, 1ms);
      return 1;
    } catch (const DistStoreError& error) {
      if (error.reason() != Reason::TIMEOUT) {
        return 1;
      }
    }
    store.queuePop("q");
  }
}

TEST_P(ServerFaultTest, ClientsThatAreKilledDisturbNobody) {
  constexpr int kClients = 6;
  std::mt19937 random(20'261'115);
  std::vector<std::unique_ptr<Process>> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<Process>([&, i] { return workForEver(server.port(), i); }));
  }
  const auto observer = connect(20s);
  for (int i = 0; i < kClients; ++i) {
    observer->wait({str("own ", i)});
  }
  for (int i = 0; i < kClients - 2; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    clients[static_cast<std::size_t>(i)]->kill();
    const std::int64_t before = observer->add(str("own ", kClients - 1), 0);
    // A killed client may have taken an element with it: nobody may starve for that.
    observer->queuePush("q", "one more");
    EXPECT_TRUE(eventually([&] {
      return observer->add(str("own ", kClients - 1), 0) > before + 5;
    })) << "the others must go on";
  }

  for (const auto& client : clients) {
    EXPECT_FALSE(client->ended() && client->join() != SIGKILL) << client->join();
  }
}

TEST(ServerMemoryTest, ForgetsClientsThatAreKilled) {
  // Children first: they are made before the server's thread.
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::vector<std::unique_ptr<Process>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<Process>([&, i] {
      std::uint16_t port = 0;
      if (::read(ends[0], &port, sizeof port) != sizeof port) {
        return 1;
      }
      TCPStore store(kHost, {.port = port, .timeout = 60s});
      store.wait({"never", str("never ", i)});
      return 1;
    }));
  }
  const tcp::StoreServer server({.host = kHost}, Deadline::after(20s));
  for (int i = 0; i < 4; ++i) {
    const std::uint16_t port = server.port();
    ASSERT_EQ(::write(ends[1], &port, sizeof port), ssize_t{sizeof port});
  }
  EXPECT_TRUE(eventually([&] { return server.connectionCount() == 4; }));

  for (const auto& client : clients) {
    client->kill();
  }

  EXPECT_TRUE(eventually([&] { return server.connectionCount() == 0; }));
  TCPStore after(kHost, {.port = server.port(), .timeout = 20s});
  after.set("never", "v");
  EXPECT_EQ(after.numKeys(), 1);
  ::close(ends[0]);
  ::close(ends[1]);
}

/// One session of a client, whose connection is cut somewhere. What is answered must be right.
void runSession(std::uint16_t port, const std::string& tag) {
  TCPStore store(kHost, {.port = port, .timeout = 5s});
  const std::vector<std::string> keys = {tag + "x", tag + "y"};
  store.set(tag + "a", "1");
  EXPECT_EQ(store.getString(tag + "a"), "1");
  EXPECT_EQ(store.add(tag + "n", 5), 5);
  store.multiSet(keys, std::vector<Bytes>{bytes("x value"), bytes("y value")});
  EXPECT_THAT(store.multiGet(keys), ::testing::ElementsAre(bytes("x value"), bytes("y value")));
  store.queuePush(tag + "q", "element");
  EXPECT_EQ(asText(store.queuePop(tag + "q")), "element");
  try {
    store.wait({tag + "never"}, 5ms);
    ADD_FAILURE() << "a key that nobody set was there";
  } catch (const DistStoreError& error) {
    EXPECT_EQ(error.reason(), Reason::TIMEOUT) << error.what();
  }
  store.barrier(tag + "b", 1);
  EXPECT_EQ(store.compareSet(tag + "a", "1", "2"), "2");
}

/// What a session may have left behind: each call is done or not, in order.
void checkTraces(Store& store, const std::string& tag) {
  const bool n = store.check({tag + "n"});
  const bool x = store.check({tag + "x"});
  const bool y = store.check({tag + "y"});
  const bool b = store.check({tag + "b"});
  EXPECT_EQ(x, y) << "a multiSet is done in full or not at all";
  EXPECT_GE(n, x);
  EXPECT_GE(x, b);
  if (n) {
    EXPECT_EQ(store.getString(tag + "n"), "5");
  }
  if (x) {
    EXPECT_EQ(store.getString(tag + "x"), "x value");
  }
}

class CutConnectionTest
    : public ::testing::TestWithParam<std::tuple<bool, CuttingProxy::Direction>> {};
INSTANTIATE_TEST_SUITE_P(Everywhere, CutConnectionTest,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(CuttingProxy::Direction::TO_SERVER,
                                                              CuttingProxy::Direction::TO_CLIENT)),
                         [](const auto& kind) {
                           return str(std::get<0>(kind.param) ? "Uv" : "Poll",
                                      std::get<1>(kind.param) == CuttingProxy::Direction::TO_SERVER
                                          ? "Requests"
                                          : "Replies");
                         });

TEST_P(CutConnectionTest, GivesTheRightAnswerOrTheRightErrorWhereverItIsCut) {
  const auto [useLibUv, direction] = GetParam();
  const tcp::StoreServer server({.host = kHost, .useLibUv = useLibUv}, Deadline::after(20s));
  TCPStore observer(kHost, {.port = server.port(), .timeout = 20s});
  bool whole = false;
  int lost = 0;
  for (std::size_t cut = 0; !whole; ++cut) {
    SCOPED_TRACE(str("cut after ", cut, " bytes"));
    const std::string tag = str(cut, "/");
    const CuttingProxy proxy(server.port(), direction, cut);
    try {
      runSession(proxy.port(), tag);
      whole = proxy.passed() < cut;
    } catch (const DistNetworkError& error) {
      EXPECT_EQ(error.reason(), Reason::STORE_LOST) << error.what();
      ++lost;
    }
    checkTraces(observer, tag);
    ASSERT_LT(cut, 3000U);
    if (HasFailure()) {
      return;
    }
  }
  EXPECT_GT(lost, 20);
}

}  // namespace
}  // namespace unisono

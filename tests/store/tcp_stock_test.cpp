// How a TCPStore talks to a server that has only PyTorch's protocol.
#include <algorithm>
#include <atomic>
#include <functional>
#include <gmock/gmock.h>
#include <thread>
#include <utility>
#include <vector>

#include "unisono/base/error.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/bytes.hpp"
#include "base/str.hpp"
#include "store/expect.hpp"
#include "support/blocked_call.hpp"
#include "support/bounds.hpp"
#include "support/fake_server.hpp"

namespace unisono {
namespace {

using test::BlockedCall;
using test::EndsInTime;
using test::reasonOf;
using test::StockServer;
using test::textOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

constexpr const char* kHost = "127.0.0.1";

Bytes bytes(std::string_view text) {
  return {text.begin(), text.end()};
}

/// A client of a server that has only PyTorch's protocol.
class StockServerTest : public ::testing::Test {
 protected:
  ~StockServerTest() override {
    for (const StockServer::Seen& one : server.seen()) {
      EXPECT_THAT(one.query, Not(HasSubstr("!"))) << "a private form was sent to a stock server";
    }
  }

  StockServer server;
  TCPStore client{kHost, {.port = server.port(), .timeout = 20s}};
};

TEST_F(StockServerTest, IsRecognised) {
  EXPECT_FALSE(client.hasNativeServer());
}

TEST_F(StockServerTest, GetsInTwoSteps) {
  client.add("k", 5);
  EXPECT_EQ(client.getString("k"), "5");
  const std::vector<std::string> keys = {"k", "k"};
  EXPECT_THAT(client.multiGet(keys), ElementsAre(bytes("5"), bytes("5")));
  client.wait(keys);

  EXPECT_EQ(server.asked(0), "add wait get wait multi_get wait");
}

TEST_F(StockServerTest, ConfirmsItsWritesBeforeItWaits) {
  client.set("k", "v");
  client.append("k", "w");
  EXPECT_EQ(client.getString("k"), "vw");
  EXPECT_EQ(client.getString("k"), "vw");
  client.set("l", "v");
  EXPECT_TRUE(client.check({"l"})) << "an answer confirms as well as an echo";
  client.wait({"l"});

  EXPECT_EQ(server.asked(0), "set append ping wait get wait get set check wait");
}

TEST_F(StockServerTest, ConfirmsItsWritesBeforeAnotherThreadUsesAnotherConnection) {
  BlockedCall waiting([&] { return client.getString("never"); });
  client.set("k", "v");
  BlockedCall getting([&] { return client.getString("k"); });
  EXPECT_EQ(getting.result(), "v");

  EXPECT_EQ(server.asked(1), "set ping wait get");
  client.set("never", "now");
  EXPECT_EQ(waiting.result(), "now");
}

TEST_F(StockServerTest, SyncWritesAreConfirmedOneByOne) {
  TCPStore careful(kHost, {.port = server.port(), .timeout = 20s, .syncWrites = true});
  careful.set("k", "v");
  careful.append("k", "w");

  EXPECT_EQ(server.asked(1), "set ping append ping");
  EXPECT_EQ(careful.getString("k"), "vw");
}

TEST_F(StockServerTest, CancelsAWaitThatTakesTooLongAndGoesOn) {
  client.setTimeout(100ms);
  {
    const EndsInTime bound(100ms);
    EXPECT_THAT(textOf([&] { client.get("no such key"); }),
                HasSubstr("wait timeout after 100ms, keys: /no such key"));
  }
  client.set("k", "v");
  EXPECT_EQ(client.getString("k"), "v");
  EXPECT_THAT(textOf([&] { client.barrier("b", 2); }), HasSubstr("barrier timeout after 100ms, "
                                                                 "key: b"));
  EXPECT_EQ(client.add("n", 1), 1);

  EXPECT_EQ(server.connections(), 1) << "the connection stayed usable";
  EXPECT_EQ(server.asked(0), "wait cancel_wait set ping wait get barrier cancel_wait add");
}

TEST_F(StockServerTest, AskedWithoutWaitingItCancelsAtOnce) {
  client.setTimeout(0ms);
  EXPECT_EQ(reasonOf([&] { client.get("k"); }), Reason::TIMEOUT);
  client.set("k", "v");
  EXPECT_EQ(client.getString("k"), "v");

  EXPECT_EQ(server.asked(0), "wait cancel_wait set ping wait cancel_wait get");
}

TEST_F(StockServerTest, PopsInTwoStepsUntilItGetsSomething) {
  client.queuePush("q", "1");
  EXPECT_EQ(asText(client.queuePop("q")), "1");
  EXPECT_THROW(client.queuePop("q", false), DistQueueEmptyError);
  BlockedCall popping([&] { return client.queuePop("q"); });
  client.queuePush("q", "2");
  EXPECT_EQ(asText(popping.result()), "2");

  client.setTimeout(150ms);
  client.set("q", "a key of that name makes the wait end");
  const EndsInTime bound(150ms);
  EXPECT_THAT(textOf([&] { client.queuePop("q"); }),
              AllOf(HasSubstr("wait timeout after 150ms, keys: /q"), HasSubstr("op=queue_pop")));
}

TEST_F(StockServerTest, APopThatGivesUpNamesItsOwnTimeout) {
  client.setTimeout(120ms);
  const EndsInTime bound(120ms);

  EXPECT_THAT(textOf([&] { client.queuePop("q"); }),
              AllOf(HasSubstr("wait timeout after 120ms, keys: /q"), HasSubstr("op=queue_pop")));
}

TEST_F(StockServerTest, EachOfManyWhoPopGetsOneElement) {
  std::atomic<int> sum{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int taken = 0; taken < 25; ++taken) {
        sum += std::stoi(std::string(asText(client.queuePop("q"))));
      }
    });
  }
  for (int i = 1; i <= 100; ++i) {
    client.queuePush("q", str(i));
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  EXPECT_EQ(sum.load(), 5050);
}

TEST_F(StockServerTest, DeletesAPrefixKeyByKey) {
  client.set("a/1", "");
  client.set("a/2", "");
  client.set("b", "");

  EXPECT_EQ(client.deletePrefix("a/"), 2);
  EXPECT_THAT(client.listKeys(), ElementsAre("b"));
}

TEST_F(StockServerTest, DeletingAPrefixKeyByKeyIsOneCallWithOneDeadline) {
  for (int i = 0; i < 100; ++i) {
    client.set(str("a/", i), "");
  }
  EXPECT_EQ(client.numKeys(), 100);
  server.takeLong(tcp::Query::DELETE_KEY, 100ms);
  client.setTimeout(600ms);
  {
    const EndsInTime bound(600ms);
    EXPECT_THAT(textOf([&] { client.deletePrefix("a/"); }),
                AllOf(HasSubstr("delete_prefix gave up: wait timeout after 600ms"),
                      HasSubstr("[TIMEOUT]")));
  }
  client.setTimeout(20s);

  EXPECT_LT(client.numKeys(), 100);
}

TEST_F(StockServerTest, ARefusedCallLosesTheConnection) {
  client.set("text", "abc");

  EXPECT_EQ(reasonOf<DistNetworkError>([&] { client.add("text", 1); }), Reason::STORE_LOST);
  EXPECT_EQ(reasonOf<DistNetworkError>([&] { client.check({"text"}); }), Reason::STORE_LOST);
}

TEST_F(StockServerTest, ACallThatIsNotAnsweredGivesUpInTimeAndTheNextOneWorks) {
  client.set("k", "v");
  EXPECT_TRUE(client.check({"k"}));
  server.ignore(tcp::Query::ADD);
  client.setTimeout(600ms);
  {
    const EndsInTime bound(600ms);
    EXPECT_THAT(
        textOf([&] { client.add("n", 1); }),
        AllOf(HasSubstr("timeout after 600ms"), HasSubstr("does not answer"),
              HasSubstr("whether it carried out the call is not known"), HasSubstr("[TIMEOUT]")));
  }
  EXPECT_EQ(client.getString("k"), "v");
}

TEST_F(StockServerTest, WritesThatCannotBeConfirmedAnyMoreAreReportedByTheNextCall) {
  server.ignore(tcp::Query::NUM_KEYS);
  client.set("k", "v");
  // What comes along with a request that is carried out is carried out, too.
  ASSERT_TRUE(test::eventually([&] {
    return std::ranges::any_of(server.seen(), [](const auto& one) { return one.query == "set"; });
  }));
  client.setTimeout(100ms);
  EXPECT_EQ(reasonOf([&] { client.numKeys(); }), Reason::TIMEOUT);
  server.cutAll();
  client.setTimeout(20s);

  EXPECT_THAT(textOf<DistNetworkError>([&] { client.check({"k"}); }),
              AllOf(HasSubstr("[STORE_LOST]"), HasSubstr("the last writes of this store")));
}

TEST_F(StockServerTest, ACancellationThatIsNotAnsweredGivesUpInTime) {
  server.ignore(tcp::Query::CANCEL_WAIT);
  const EndsInTime bound(200ms);

  EXPECT_THAT(textOf([&] { client.wait({"k"}, 200ms); }), HasSubstr("does not answer"));
}

TEST_F(StockServerTest, ManyThreadsWorkWhileManyWait) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        const std::string key = str(i, "/", round);
        client.set(key, key);
        ASSERT_TRUE(client.check({key}));
        ASSERT_EQ(client.getString(key), key);
        client.wait({str((i + 1) % 6, "/", round)});
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(WrongServerTest, IsNotBelievedThatThereAreFewerThanNoThings) {
  const std::vector<std::pair<std::string, std::function<void(TCPStore&)>>> calls = {
      {"num_keys", [](TCPStore& store) { store.numKeys(); }},
      {"list_keys", [](TCPStore& store) { store.listKeys(); }},
      {"delete_key", [](TCPStore& store) { store.deleteKey("k"); }},
  };
  for (const auto& [name, call] : calls) {
    const test::FakeServer server([](Socket& socket, int) {
      const std::string hello = test::receive(socket, 10);
      test::send(socket, hello.substr(6));
      test::receive(socket, 37);  // the question what it can do
      test::send(socket, std::string(1, '\1'));
      test::receive(socket, 1);
      test::send(socket, std::string(8, '\xff'));
      test::drain(socket);
    });
    TCPStore client(kHost, {.port = server.port(), .timeout = 20s});

    EXPECT_THAT(textOf<DistNetworkError>([&, &ask = call] { ask(client); }),
                AllOf(HasSubstr("the count -1"), HasSubstr("[PROTOCOL]")))
        << name;
  }
}

}  // namespace
}  // namespace unisono

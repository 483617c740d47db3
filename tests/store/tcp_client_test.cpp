// How a TCPStore talks to a server of ours: from many threads at once, and about what is too much.
#include <atomic>
#include <gmock/gmock.h>
#include <thread>

#include "unisono/base/error.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/bytes.hpp"
#include "base/str.hpp"
#include "store/expect.hpp"
#include "store/tcp/server.hpp"
#include "support/blocked_call.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::BlockedCall;
using test::eventually;
using test::reasonOf;
using test::textOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr const char* kHost = "127.0.0.1";

Bytes bytes(std::string_view text) {
  return {text.begin(), text.end()};
}

/// A client of one of our servers, by either event loop.
class TCPClientTest : public ::testing::TestWithParam<bool> {
 protected:
  TCPStore server{kHost, {.port = 0, .isServer = true, .timeout = 20s, .useLibUV = GetParam()}};
  TCPStore client{kHost, {.port = server.port(), .timeout = 20s}};
};
INSTANTIATE_TEST_SUITE_P(Loops, TCPClientTest, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Uv" : "Poll"; });

TEST_P(TCPClientTest, AThreadThatWaitsDoesNotHoldUpTheSetThatReleasesIt) {
  for (int i = 0; i < 20; ++i) {
    const std::string key = str("k", i);
    BlockedCall getting([&] { return client.getString(key); });

    client.set(key, "v");

    EXPECT_EQ(getting.result(), "v");
  }
}

TEST_P(TCPClientTest, SeesItsOwnWritesAtOnceFromManyThreads) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&, i] {
      for (int round = 0; !stop.load(); ++round) {
        // Takes connections away all the time.
        reasonOf([&] { client.wait({str("never ", i)}, 1ms); });
      }
    });
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      const std::string key = str("own ", i);
      for (int round = 0; round < 200; ++round) {
        client.set(key, str(round));
        wrong += client.getString(key) == str(round) ? 0 : 1;
        client.set(key, str(round, "!"));
        wrong += client.compareSet(key, str(round, "!"), "x") == "x" ? 0 : 1;
        client.append(key, "y");
        wrong += client.deleteKey(key) ? 0 : 1;
        wrong += client.check({key}) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  stop.store(true);
  for (std::thread& thread : waiters) {
    thread.join();
  }

  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(TCPClientTest, SixteenThreadsAddAThousandTimesEach) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      const StorePtr own = i % 2 == 0 ? server.clone() : nullptr;
      Store& store = own ? *own : client;
      for (int round = 0; round < 1000; ++round) {
        store.add("counter", 1);
      }
      for (int round = 0; round < 100; ++round) {
        store.set(str("key ", i), str(round));
        ASSERT_EQ(store.getString(str("key ", i)), str(round));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  EXPECT_EQ(server.add("counter", 0), 16'000);
}

TEST_P(TCPClientTest, ManyClientsSetAndWaitForAll) {
  constexpr int kClients = 64;
  std::vector<std::string> all;
  for (int i = 0; i < kClients; ++i) {
    all.push_back(str("key ", i));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      const StorePtr own = server.clone();
      own->set(all[static_cast<std::size_t>(i)], str(i));
      own->wait(all);
      ASSERT_EQ(own->multiGet(all).size(), all.size());
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_P(TCPClientTest, MoreThreadsMayWaitThanThereAreConnections) {
  constexpr int kThreads = 300;
  std::atomic<int> released{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      try {
        client.wait({"go"});
        ++released;
      } catch (const DistStoreError&) {
        // Counted by its absence.
      }
    });
  }
  // All that can be are inside: as many as leave some connections to others.
  EXPECT_TRUE(eventually([&] {
    return server.serverStats().find("\"waits\":240,") != std::string::npos;
  })) << server.serverStats();

  EXPECT_FALSE(client.check({"go"})) << "questions that are answered at once find a connection";
  EXPECT_EQ(client.add("n", 1), 1);
  client.set("go", "");

  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(released.load(), kThreads);
}

TEST_P(TCPClientTest, MoreThreadsMayMeetAtABarrierThanThereAreConnections) {
  constexpr int kThreads = 300;
  client.set("present", "v");
  std::atomic<int> met{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads - 1; ++i) {
    threads.emplace_back([&] {
      try {
        client.barrier("b", kThreads);
        ++met;
      } catch (const DistStoreError&) {
        // Counted by its absence.
      }
    });
  }
  EXPECT_TRUE(
      eventually([&] { return server.check({"b"}) && server.add("b", 0) == kThreads - 1; }));

  EXPECT_EQ(client.getString("present"), "v") << "they do not shut out who has yet to come";
  client.barrier("b", kThreads);

  threads.clear();
  EXPECT_EQ(met.load(), kThreads - 1);
}

TEST_P(TCPClientTest, AListingThatIsTooLongIsRefusedAndTheStoreStays) {
  const tcp::StoreServer narrow(
      {.host = kHost, .useLibUv = GetParam(), .limits = {.unsentBytes = 1000}},
      Deadline::after(20s));
  TCPStore lister(kHost, {.port = narrow.port(), .timeout = 20s});
  TCPStore other(kHost, {.port = narrow.port(), .timeout = 20s});
  other.set(std::string(500, 'a'), "v");
  EXPECT_EQ(other.numKeys(), 1);
  EXPECT_EQ(lister.listKeys().size(), 1U);
  other.set(std::string(500, 'b'), "v");
  EXPECT_EQ(other.numKeys(), 2);

  EXPECT_THAT(textOf([&] { lister.listKeys(); }),
              AllOf(HasSubstr("list_keys was refused"), HasSubstr("[LIMIT]")));

  EXPECT_EQ(lister.numKeys(), 2) << "whatever another client wrote";
}

TEST_P(TCPClientTest, TheLargestValuePassesAndOneByteMoreIsNotSent) {
  const std::string largest(8 * 1024 * 1024, 'x');
  client.set("k", largest);
  EXPECT_TRUE(client.getString("k") == largest);
  EXPECT_EQ(client.compareSet("k", largest, "small"), "small");
  client.queuePush("q", largest);
  EXPECT_TRUE(asText(client.queuePop("q")) == largest);

  const std::string more = largest + "x";
  const auto tooLong = AllOf(HasSubstr("8388609"), HasSubstr("8388608"), HasSubstr("[LIMIT]"));
  EXPECT_THAT(textOf([&] { client.set("k", more); }), tooLong);
  EXPECT_THAT(textOf([&] { client.append("k", more); }), tooLong);
  EXPECT_THAT(textOf([&] { client.compareSet("k", "small", more); }), tooLong);
  EXPECT_THAT(textOf([&] { client.queuePush("k", more); }), tooLong);
  EXPECT_THAT(textOf([&] {
                client.multiSet(std::vector<std::string>{"k"}, std::vector<Bytes>{bytes(more)});
              }),
              tooLong);
  EXPECT_EQ(client.getString("k"), "small");
}

TEST_P(TCPClientTest, TheLongestKeyPassesAndOneByteMoreIsNotSent) {
  const std::string longest(8191, 'k');
  client.set(longest, "v");
  EXPECT_EQ(client.getString(longest), "v");
  EXPECT_EQ(server.listKeys(), std::vector{longest});

  const std::string more = longest + "k";
  const auto tooLong = [&](const std::function<void()>& call) {
    EXPECT_THAT(textOf(call), AllOf(HasSubstr("8193"), HasSubstr("8192"), HasSubstr("[LIMIT]")));
  };
  tooLong([&] { client.set(more, "v"); });
  tooLong([&] { client.get(more); });
  tooLong([&] { client.add(more, 1); });
  tooLong([&] { client.check({"a", more}); });
  tooLong([&] { client.wait({more}); });
  tooLong([&] { client.deleteKey(more); });
  tooLong([&] { client.deletePrefix(more); });
  tooLong([&] { client.queuePush(more, "v"); });
  tooLong([&] { client.queuePop(more); });
  tooLong([&] { client.queuePop(more, false); });
  tooLong([&] { client.queueLen(more); });
  tooLong([&] { client.barrier(more, 1); });
  tooLong([&] { client.append(more, "v"); });
  tooLong([&] { client.compareSet(more, "", "v"); });
  EXPECT_EQ(client.numKeys(), 1);
}

TEST_P(TCPClientTest, AsManyKeysAsAllowedPassAndOneMoreIsNotSent) {
  std::vector<std::string> keys;
  for (int i = 0; i < 131'072; ++i) {
    keys.push_back(str(i));
  }
  const std::vector<Bytes> values(keys.size(), bytes("v"));
  client.multiSet(keys, values);
  EXPECT_EQ(client.numKeys(), 131'072);
  EXPECT_TRUE(client.check(keys));
  client.wait(keys);
  EXPECT_EQ(client.multiGet(keys).size(), keys.size());

  keys.emplace_back("one more");
  const std::vector<Bytes> more(keys.size(), bytes("v"));
  const auto tooMany = AllOf(HasSubstr("131073"), HasSubstr("131072"), HasSubstr("[LIMIT]"));
  EXPECT_THAT(textOf([&] { client.check(keys); }), tooMany);
  EXPECT_THAT(textOf([&] { client.wait(keys); }), tooMany);
  EXPECT_THAT(textOf([&] { client.multiGet(keys); }), tooMany);
  EXPECT_THAT(textOf([&] { client.multiSet(keys, more); }), tooMany);
  EXPECT_EQ(client.numKeys(), 131'072);
}

TEST_P(TCPClientTest, ARequestThatIsTooLongInAllIsNotSent) {
  std::vector<std::string> keys;
  for (int i = 0; i < 9; ++i) {
    keys.push_back(str(i));
  }
  const std::vector<Bytes> values(keys.size(), Bytes(8 * 1024 * 1024));

  EXPECT_EQ(reasonOf([&] { client.multiSet(keys, values); }), Reason::LIMIT);
  EXPECT_EQ(client.numKeys(), 0);
}

TEST_P(TCPClientTest, ValuesThatAreTooMuchInAllAreRefusedAndTheConnectionStays) {
  std::vector<std::string> keys;
  for (int i = 0; i < 9; ++i) {
    keys.push_back(str(i));
    client.set(keys.back(), Bytes(8 * 1024 * 1024));
  }

  EXPECT_EQ(reasonOf([&] { client.multiGet(keys); }), Reason::LIMIT);
  keys.resize(3);
  EXPECT_EQ(client.multiGet(keys).size(), 3U);
}

TEST_P(TCPClientTest, ARefusedCallKeepsTheConnection) {
  const std::string before = client.repr();
  client.set("text", "abc");
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(textOf([&] { client.add("text", 1); }),
                AllOf(HasSubstr("is not a number"), HasSubstr("[USAGE]"), HasSubstr("text")));
    EXPECT_THAT(textOf([&] { client.barrier("text", 2); }), HasSubstr("[USAGE]"));
  }
  EXPECT_EQ(client.getString("text"), "abc");
  EXPECT_EQ(client.repr(), before);
}

/// A server that holds next to nothing, so that writes are refused.
class FullStoreTest : public ::testing::Test {
 protected:
  FullStoreTest() { client.add("n", 1); }

  const std::string much = std::string(5000, 'x');
  const tcp::StoreServer server{{.host = kHost, .limits = {.contentBytes = 4000}},
                                Deadline::after(20s)};
  TCPStore other{kHost, {.port = server.port(), .timeout = 20s}};
  TCPStore client{kHost, {.port = server.port(), .timeout = 20s}};
};

TEST_F(FullStoreTest, ARefusedWriteIsReportedByTheNextCall) {
  client.set("k", much);

  EXPECT_THAT(textOf([&] { client.check({"k"}); }),
              AllOf(HasSubstr("an earlier write was refused: set of /k: the store is full"),
                    HasSubstr("DO: "), HasSubstr("[LIMIT]")));
  EXPECT_FALSE(client.check({"k"})) << "and only by that one";
}

TEST_F(FullStoreTest, ARefusedWriteIsReportedAtOnceWhenAskedFor) {
  TCPStore careful(kHost, {.port = server.port(), .timeout = 20s, .syncWrites = true});

  EXPECT_EQ(reasonOf([&] { careful.set("k", much); }), Reason::LIMIT);
  EXPECT_EQ(reasonOf([&] { careful.append("k", much); }), Reason::LIMIT);
  EXPECT_EQ(reasonOf([&] { careful.queuePush("k", much); }), Reason::LIMIT);
  EXPECT_FALSE(careful.check({"k"}));
}

TEST_F(FullStoreTest, ACallThatWaitsReportsARefusedWriteWithoutWaiting) {
  const auto start = std::chrono::steady_clock::now();

  client.set("k", much);
  EXPECT_EQ(reasonOf([&] { client.get("k"); }), Reason::LIMIT) << "it would wait for ever";
  client.set("k", much);
  EXPECT_EQ(reasonOf([&] { client.wait({"k"}); }), Reason::LIMIT);

  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  client.set("k", "little");
  EXPECT_EQ(client.getString("k"), "little");
}

TEST_F(FullStoreTest, ACallThatReportsARefusedWriteHasDoneNothingItself) {
  const auto afterARefusal = [&](const std::function<void()>& call) {
    client.set("k", much);
    EXPECT_EQ(reasonOf(call), Reason::LIMIT);
  };
  other.queuePush("q", "element");

  afterARefusal([&] { client.add("n", 1); });
  afterARefusal([&] { client.queuePop("q"); });
  afterARefusal([&] { client.queuePop("q", false); });
  afterARefusal([&] { client.compareSet("n", "1", "5"); });
  afterARefusal([&] { client.deleteKey("n"); });
  afterARefusal([&] { client.deletePrefix("n"); });
  afterARefusal([&] { client.barrier("b", 1); });

  EXPECT_EQ(client.add("n", 0), 1);
  EXPECT_EQ(client.queueLen("q"), 1) << "an element must not be lost";
  EXPECT_FALSE(client.check({"b"}));
}

TEST_F(FullStoreTest, MoreWritesThanAreLeftUnansweredAreReportedInBetween) {
  EXPECT_EQ(reasonOf([&] {
              for (int i = 0; i < 10'000; ++i) {
                client.set("k", much);
              }
            }),
            Reason::LIMIT);
}

}  // namespace
}  // namespace unisono

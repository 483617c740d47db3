// How a TCPStore finds its server, and what it says of a peer that is none.
#include <gmock/gmock.h>

#include "unisono/base/error.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/str.hpp"
#include "net/net_support.hpp"
#include "store/expect.hpp"
#include "support/blocked_call.hpp"
#include "support/bounds.hpp"
#include "support/fake_server.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::BlockedCall;
using test::EndsInTime;
using test::FakeServer;
using test::reasonOf;
using test::StockServer;
using test::textOf;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr const char* kHost = "127.0.0.1";

TCPStoreOptions serverOptions(bool useLibUv = true) {
  return {.port = 0, .isServer = true, .timeout = 20s, .useLibUV = useLibUv};
}

TCPStoreOptions clientOptions(std::uint16_t port, std::chrono::milliseconds timeout = 20s) {
  return {.port = port, .timeout = timeout};
}

TEST(TCPStoreConnectTest, AnUnresolvableNameIsReportedInTime) {
  const auto start = std::chrono::steady_clock::now();

  EXPECT_THAT(
      textOf<DistNetworkError>(
          [] { TCPStore("dnsnotexist.invalid", {.port = 23456, .timeout = 500ms}); }),
      AllOf(ContainsRegex("client socket has timed out after.*dnsnotexist"), HasSubstr("500ms")));
  EXPECT_LT(std::chrono::steady_clock::now() - start, test::latestEnd(500ms));
}

TEST(TCPStoreConnectTest, APortWhereNobodyListensIsReportedInTime) {
  const test::ClosedPort closed;
  const EndsInTime bound(300ms);

  EXPECT_THAT(
      textOf<DistNetworkError>([&] { TCPStore(kHost, clientOptions(closed.number(), 300ms)); }),
      AllOf(HasSubstr(str("The client socket has timed out after 300ms while trying to connect to "
                          "(127.0.0.1, ",
                          closed.number(), ")")),
            HasSubstr("ECONNREFUSED"), HasSubstr("[PEER_UNREACHABLE]")));
}

TEST(TCPStoreConnectTest, WaitsForAServerThatComesLate) {
  test::ClosedPort later;
  const std::uint16_t port = later.number();
  BlockedCall connecting([&] { return std::make_shared<TCPStore>(kHost, clientOptions(port)); });
  EXPECT_TRUE(connecting.staysBlocked());
  TCPStoreOptions options = serverOptions();
  options.port = port;
  options.masterListenFd = later.release();
  TCPStore server(kHost, options);

  const std::shared_ptr<TCPStore> client = connecting.result();

  client->set("k", "v");
  EXPECT_EQ(server.getString("k"), "v");
}

TEST(TCPStoreConnectTest, APeerThatSaysNothingIsGivenUpInTime) {
  const FakeServer silent([](Socket& socket, int) { test::drain(socket); });
  const EndsInTime bound(300ms);

  EXPECT_THAT(
      textOf<DistNetworkError>([&] { TCPStore(kHost, clientOptions(silent.port(), 300ms)); }),
      AllOf(HasSubstr("The client socket has timed out after 300ms"),
            HasSubstr("does not answer")));
}

TEST(TCPStoreConnectTest, AllThatTheConstructorDoesHasOneTimeout) {
  StockServer server;
  server.takeLong(tcp::Query::VALIDATE, 1200ms);
  server.ignore(tcp::Query::ADD);
  TCPStoreOptions options = clientOptions(server.port(), 2s);
  options.numWorkers = 2;
  const EndsInTime bound(2s);

  EXPECT_EQ(reasonOf([&] { TCPStore(kHost, options); }), Reason::TIMEOUT);
}

TEST(TCPStoreConnectTest, APeerThatSpeaksSomethingElseIsGivenUpInTime) {
  const FakeServer http([](Socket& socket, int) {
    test::receive(socket, 1);
    test::send(socket, "HTTP/1.1 400 Bad Request\r\n\r\n");
  });
  const EndsInTime bound(300ms);

  EXPECT_THAT(textOf<DistNetworkError>([&] { TCPStore(kHost, clientOptions(http.port(), 300ms)); }),
              AllOf(HasSubstr("The client socket has timed out after 300ms"),
                    HasSubstr("Ping failed, invalid value returned from server. Expected: "),
                    HasSubstr("Got: ")));
}

TEST(TCPStoreConnectTest, APeerThatClosesAtOnceIsGivenUpInTime) {
  const FakeServer closing([](Socket&, int) {});
  const EndsInTime bound(300ms);

  EXPECT_THAT(
      textOf<DistNetworkError>([&] { TCPStore(kHost, clientOptions(closing.port(), 300ms)); }),
      HasSubstr("The client socket has timed out after 300ms"));
}

TEST(TCPStoreConnectTest, TriesAgainWhenAConnectionBreaksBeforeItIsGreeted) {
  // A full listen queue resets connections that seemed to be made.
  const FakeServer flaky([](Socket& socket, int number) {
    if (number < 3) {
      return;
    }
    const std::string hello = test::receive(socket, 10);
    test::send(socket, hello.substr(6));
    test::drain(socket);
  });

  // Time enough for four, however slow they are.
  EXPECT_THROW(TCPStore(kHost, clientOptions(flaky.port(), 3s)), DistNetworkError)
      << "it never answers what it can do";
  EXPECT_EQ(flaky.connections(), 4);
}

TEST(TCPStoreConnectTest, GreetsAsPyTorchDoes) {
  std::string hello;
  {
    const FakeServer server([&](Socket& socket, int) {
      hello = test::receive(socket, 10);
      test::send(socket, hello.substr(6));
    });

    const TCPStore client(kHost, clientOptions(server.port()));

    EXPECT_FALSE(client.hasNativeServer());
  }
  ASSERT_EQ(hello.size(), 10U);
  EXPECT_EQ(hello.substr(0, 6), std::string("\x00\xce\xf7\x85\x3c\x0d", 6));
  std::uint32_t nonce = 0;
  std::memcpy(&nonce, hello.data() + 6, sizeof nonce);
  EXPECT_EQ(nonce, static_cast<std::uint32_t>(::getpid()));
}

TEST(TCPStoreConnectTest, AConnectionLostAfterTheGreetingIsTheNextCallsError) {
  const FakeServer server([&](Socket& socket, int) {
    const std::string hello = test::receive(socket, 10);
    test::send(socket, hello.substr(6));
  });
  TCPStore client(kHost, clientOptions(server.port()));

  EXPECT_EQ(reasonOf<DistNetworkError>([&] { client.add("n", 1); }), Reason::STORE_LOST);
  EXPECT_EQ(reasonOf<DistNetworkError>([&] { client.add("n", 1); }), Reason::STORE_LOST);
}

TEST(TCPStoreConnectTest, DestroyingAStoreDoesNotWaitForAConnectionBeingMade) {
  // The first connection works, the next is not answered.
  const FakeServer server([&](Socket& socket, int number) {
    if (number == 0) {
      const std::string hello = test::receive(socket, 10);
      test::send(socket, hello.substr(6));
      test::receive(socket, 37);  // the question what it can do
      test::send(socket, std::string(1, '\1'));
    }
    test::drain(socket);
  });
  auto client = std::make_unique<TCPStore>(kHost, clientOptions(server.port()));
  TCPStore* raw = client.get();
  BlockedCall first([raw] { return raw->getString("k"); });
  BlockedCall second([raw] { return raw->getString("l"); });
  EXPECT_TRUE(test::eventually([&] { return server.connections() == 2; }));
  const auto start = std::chrono::steady_clock::now();

  client.reset();

  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
  EXPECT_EQ(reasonOf([&] { first.result(); }), Reason::SHUTDOWN);
  EXPECT_EQ(reasonOf([&] { second.result(); }), Reason::SHUTDOWN);
}

// --- Timeouts at the ends of the scale ----------------------------------------------------------

const std::vector<std::chrono::milliseconds> kVeryLong = {
    std::chrono::milliseconds(24h * 30), std::chrono::milliseconds(std::int64_t{1} << 32U),
    std::chrono::milliseconds::max()};

TEST(TCPStoreTimeoutTest, ZeroIsOneAttempt) {
  TCPStore server(kHost, serverOptions());
  for (int i = 0; i < 5; ++i) {
    TCPStore client(kHost, clientOptions(server.port(), 0ms));
    EXPECT_TRUE(client.hasNativeServer());
    EXPECT_EQ(client.add("n", 1), i + 1);
  }

  const test::ClosedPort closed;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(
      textOf<DistNetworkError>([&] { TCPStore(kHost, clientOptions(closed.number(), 0ms)); }),
      AllOf(HasSubstr(str("The client socket has timed out after 0ms while trying to connect to "
                          "(127.0.0.1, ",
                          closed.number(), ")")),
            HasSubstr("ECONNREFUSED"), HasSubstr(", 1 attempt."), HasSubstr("[PEER_UNREACHABLE]")));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST(TCPStoreTimeoutTest, ZeroServesButWaitsForNoWorkers) {
  TCPStoreOptions options = serverOptions();
  options.timeout = 0ms;
  TCPStore alone(kHost, options);
  alone.set("k", "v");
  EXPECT_EQ(alone.getString("k"), "v");

  options.numWorkers = 1;
  EXPECT_EQ(TCPStore(kHost, options).numKeys(), 1);
  options.numWorkers = 2;
  EXPECT_THAT(textOf([&] { TCPStore(kHost, options); }),
              AllOf(HasSubstr("Timed out after 0 seconds waiting for clients. 1/2 clients joined."),
                    HasSubstr("[TIMEOUT]")));
}

TEST(TCPStoreTimeoutTest, ZeroDoesNotWaitForASilentPeer) {
  const FakeServer silent([](Socket& socket, int) { test::drain(socket); });
  const auto start = std::chrono::steady_clock::now();

  EXPECT_THAT(
      textOf<DistNetworkError>([&] { TCPStore(kHost, clientOptions(silent.port(), 0ms)); }),
      AllOf(HasSubstr("The client socket has timed out after 0ms"), HasSubstr("does not answer")));

  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST(TCPStoreTimeoutTest, NegativeIsRefusedBeforeAnythingIsDone) {
  const FakeServer server([](Socket& socket, int) { test::drain(socket); });
  const auto what = AllOf(HasSubstr("must not be negative"), HasSubstr("-1"), HasSubstr("[USAGE]"));
  TCPStoreOptions serving = serverOptions();
  serving.timeout = -1ms;

  EXPECT_THAT(textOf<UsageError>([&] { TCPStore(kHost, clientOptions(server.port(), -1ms)); }),
              what);
  EXPECT_THAT(textOf<UsageError>([&] { TCPStore(kHost, serving); }), what);
  EXPECT_EQ(server.connections(), 0);
}

TEST(TCPStoreTimeoutTest, VeryLongOnesDoNotWrapAround) {
  for (const std::chrono::milliseconds timeout : kVeryLong) {
    test::ClosedPort later;
    const std::uint16_t port = later.number();
    BlockedCall connecting([&] {
      TCPStoreOptions options = clientOptions(port, timeout);
      options.numWorkers = 2;
      return std::make_shared<TCPStore>(kHost, options);
    });
    EXPECT_TRUE(connecting.staysBlocked());

    TCPStoreOptions options = serverOptions();
    options.port = port;
    options.masterListenFd = later.release();
    options.timeout = timeout;
    options.numWorkers = 2;
    TCPStore server(kHost, options);
    const std::shared_ptr<TCPStore> client = connecting.result();

    EXPECT_EQ(client->timeout(), timeout);
    client->set("k", "v");
    EXPECT_EQ(server.getString("k"), "v");
    EXPECT_EQ(client->clone()->timeout(), timeout);
  }
}

TEST(TCPStoreTimeoutTest, VeryLongWaitsForWorkersEndWithTheLastOne) {
  for (const std::chrono::milliseconds timeout : kVeryLong) {
    test::ClosedPort place;
    TCPStoreOptions options = serverOptions();
    options.port = place.number();
    options.masterListenFd = place.release();
    options.timeout = timeout;
    options.numWorkers = 2;
    BlockedCall serving([&] { return std::make_shared<TCPStore>(kHost, options); });
    EXPECT_TRUE(serving.staysBlocked());

    TCPStoreOptions second = clientOptions(options.port);
    second.numWorkers = 2;
    const TCPStore client(kHost, second);

    EXPECT_EQ(serving.result()->port(), options.port);
  }
}

}  // namespace
}  // namespace unisono

// Stores of processes that have the job's secret, and of those that should.
#include <arpa/inet.h>
#include <cstring>
#include <gmock/gmock.h>
#include <ifaddrs.h>
#include <net/if.h>

#include "unisono/base/error.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/bytes.hpp"
#include "base/str.hpp"
#include "net/handshake.hpp"
#include "net/net_support.hpp"
#include "store/expect.hpp"
#include "store/raw_client.hpp"
#include "support/bounds.hpp"
#include "support/fake_server.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using tcp::test::RawClient;
using test::FakeServer;
using test::LogCapture;
using test::ScopedEnv;
using test::StockServer;
using test::textOf;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr const char* kHost = "127.0.0.1";
constexpr const char* kVariable = "UNISONO_AUTH_SECRET";
constexpr const char* kSecret = "what all of the job know";

TCPStoreOptions clientOptions(std::uint16_t port, std::chrono::milliseconds timeout = 20s) {
  return {.port = port, .timeout = timeout};
}

void connect(std::uint16_t port, std::chrono::milliseconds timeout = 20s) {
  static_cast<void>(TCPStore(kHost, clientOptions(port, timeout)));
}

class TCPStoreSecretTest : public ::testing::TestWithParam<bool> {
 protected:
  /// A server made in a process whose secret is `secret`; "" for none.
  void start(const std::string& secret, const std::string& host = kHost) {
    const ScopedEnv scope(kVariable, secret);
    server = std::make_unique<TCPStore>(
        host, TCPStoreOptions{.port = 0, .isServer = true, .timeout = 20s, .useLibUV = GetParam()});
  }
  bool hasLogged(const std::string& what) const {
    return test::eventually([&] {
      return ::testing::Value(
          log.lines(),
          Contains(AllOf(HasSubstr(what), HasSubstr("[AUTH_FAILED]"), HasSubstr("127.0.0.1:"))));
    });
  }

  const LogCapture log;
  std::unique_ptr<TCPStore> server;
};

INSTANTIATE_TEST_SUITE_P(Loops, TCPStoreSecretTest, testing::Values(true, false),
                         [](const auto& loop) { return loop.param ? "Uv" : "Poll"; });

TEST_P(TCPStoreSecretTest, ProcessesWithTheSecretShareAStore) {
  start(kSecret);
  const ScopedEnv scope(kVariable, kSecret);
  TCPStore client(kHost, clientOptions(server->port()));
  client.set("k", "v");
  EXPECT_EQ(asText(server->get("k")), "v");
  EXPECT_TRUE(client.hasNativeServer());
}

TEST_P(TCPStoreSecretTest, WhoseSecretIsAnotherIsToldAtOnceAndSoIsTheLog) {
  start(kSecret);
  const ScopedEnv scope(kVariable, "what the others do not know");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(
      textOf<DistAuthError>([&] { connect(server->port(), 60s); }),
      AllOf(HasSubstr("another secret"), HasSubstr("[AUTH_FAILED]"),
            HasSubstr(str("127.0.0.1:", server->port())), HasSubstr("UNISONO_AUTH_SECRET_FILE")));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
  EXPECT_TRUE(hasLogged("secret"));
}

TEST_P(TCPStoreSecretTest, AClientWithASecretNeverFallsBackToAServerWithoutOne) {
  start("");
  const ScopedEnv scope(kVariable, kSecret);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(textOf<DistAuthError>([&] { connect(server->port(), 60s); }),
              AllOf(HasSubstr("has no secret while this process has one"),
                    HasSubstr("closed the connection"), HasSubstr("[AUTH_FAILED]")));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
  EXPECT_TRUE(hasLogged("this server has none"));
}

/// An address of this host that is not a loopback address, if there is one.
std::string publicAddress() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) {
    return "";
  }
  std::string found;
  for (const ifaddrs* one = all; one != nullptr && found.empty(); one = one->ifa_next) {
    char text[INET_ADDRSTRLEN] = {};
    if (one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET &&
        (one->ifa_flags & IFF_LOOPBACK) == 0 && (one->ifa_flags & IFF_UP) != 0) {
      sockaddr_in address{};
      std::memcpy(&address, one->ifa_addr, sizeof address);
      found = ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
    }
  }
  ::freeifaddrs(all);
  return found;
}

TEST_P(TCPStoreSecretTest, AClientWithoutTheSecretIsServedByLoopback) {
  start(kSecret);
  TCPStore client(kHost, clientOptions(server->port()));
  client.set("k", "v");
  EXPECT_EQ(asText(server->get("k")), "v");
}

TEST_P(TCPStoreSecretTest, AClientWithoutTheSecretIsNotServedFromElsewhere) {
  const std::string elsewhere = publicAddress();
  if (elsewhere.empty()) {
    GTEST_SKIP() << "this host has loopback addresses only";
  }
  const ScopedEnv everywhere("UNISONO_STORE_BIND", "any");
  start(kSecret);
  RawClient stranger(SocketAddress::parse(elsewhere, server->port()).value());
  ASSERT_TRUE(stranger.connected() && stranger.hello());
  EXPECT_FALSE(stranger.served());
  EXPECT_TRUE(test::eventually([&] {
    return ::testing::Value(log.lines(),
                            Contains(AllOf(HasSubstr("does not prove"), HasSubstr(elsewhere))));
  }));

  const ScopedEnv scope(kVariable, kSecret);
  TCPStore(elsewhere, clientOptions(server->port())).set("k", "v");
  EXPECT_EQ(asText(server->get("k")), "v");
}

TEST_P(TCPStoreSecretTest, WhereLoopbackIsNotEnoughAClientIsAskedForTheSecret) {
  const ScopedEnv strict("UNISONO_STORE_ADMIT_LOCAL", "0");
  start(kSecret);
  EXPECT_THAT(textOf<DistNetworkError>([&] { connect(server->port(), 300ms); }),
              AllOf(HasSubstr("UNISONO_AUTH_SECRET_FILE"), HasSubstr("[PEER_UNREACHABLE]")));
  EXPECT_TRUE(hasLogged("does not prove"));
}

TEST_P(TCPStoreSecretTest, TheOthersAreServedWhileSomebodyGreetsAndSaysNoMore) {
  start(kSecret);
  const ScopedEnv scope(kVariable, kSecret);
  const HandshakeConnector greeter(Key{}, std::string(kHandshakeIdSize, '\0'), "");
  RawClient silent(SocketAddress::loopback(AF_INET, server->port()));
  ASSERT_TRUE(silent.send(greeter.hello()));
  ASSERT_EQ(silent.receive(kChallengeSize).size(), kChallengeSize);
  TCPStore client(kHost, clientOptions(server->port()));
  client.set("k", "v");
  EXPECT_EQ(asText(client.get("k")), "v");
}

TEST_P(TCPStoreSecretTest, TheSecretAloneAllowsToListenBeyondLoopback) {
  const ScopedEnv everywhere("UNISONO_STORE_BIND", "any");
  EXPECT_THAT(textOf<DistNetworkError>([&] { start(""); }),
              AllOf(HasSubstr("UNISONO_AUTH_SECRET_FILE"),
                    HasSubstr("UNISONO_ALLOW_UNAUTHENTICATED=1"), HasSubstr("[CONFIG]")));
  start(kSecret);
  const ScopedEnv scope(kVariable, kSecret);
  connect(server->port());
}

TEST_P(TCPStoreSecretTest, FurtherConnectionsAndCopiesOfAClientProveItToo) {
  start(kSecret);
  std::unique_ptr<TCPStore> client;
  {
    const ScopedEnv scope(kVariable, kSecret);
    client = std::make_unique<TCPStore>(kHost, clientOptions(server->port()));
  }
  // The environment is not asked again: the client remembers what it was made with.
  const StorePtr copy = client->clone();
  copy->set("k", "v");
  EXPECT_EQ(asText(client->get("k")), "v");
}

TEST(TCPStoreSecretClientTest, AServerThatDoesNotUnderstandTheGreetingIsGivenUpSoon) {
  const ScopedEnv scope(kVariable, kSecret);
  const auto start = std::chrono::steady_clock::now();
  {
    const FakeServer silent([](Socket& socket, int) { test::drain(socket); });
    EXPECT_THAT(textOf<DistAuthError>([&] { connect(silent.port(), 60s); }),
                AllOf(HasSubstr("does not speak unisono authentication"), HasSubstr("said nothing"),
                      HasSubstr("[AUTH_FAILED]")));
  }
  {
    const FakeServer talkative([](Socket& socket, int) { test::send(socket, "220 hello\r\n"); });
    EXPECT_THAT(textOf<DistAuthError>([&] { connect(talkative.port(), 60s); }),
                HasSubstr("does not speak unisono authentication"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 50s);
}

TEST(TCPStoreSecretClientTest, AStockServerIsGivenUpSoon) {
  const ScopedEnv scope(kVariable, kSecret);
  const StockServer stock;
  EXPECT_THAT(textOf<DistAuthError>([&] { connect(stock.port(), 60s); }),
              HasSubstr("[AUTH_FAILED]"));
}

TEST(TCPStoreSecretClientTest, ASilentServerIsOnlyLateWhenTimeIsShort) {
  const ScopedEnv scope(kVariable, kSecret);
  const FakeServer silent([](Socket& socket, int) { test::drain(socket); });
  const test::EndsInTime bound(300ms);
  EXPECT_THAT(textOf<DistNetworkError>([&] { connect(silent.port(), 300ms); }),
              HasSubstr("[PEER_UNREACHABLE]"));
}

TEST(TCPStoreSecretClientTest, ASecretThatCannotBeUsedIsRefusedBeforeAnythingIsSent) {
  const ScopedEnv scope("UNISONO_AUTH_SECRET_FILE", "/does/not/exist");
  const FakeServer nobody([](Socket&, int) {});
  EXPECT_THAT(textOf<UsageError>([&] { connect(nobody.port()); }), HasSubstr("[CONFIG]"));
  EXPECT_EQ(nobody.connections(), 0);
}

}  // namespace
}  // namespace unisono

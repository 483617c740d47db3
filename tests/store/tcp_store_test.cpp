// TCPStore: its options, what it says about itself, and how its server and clients come and go.
// What it does as a store is in tests/conformance, how it talks in tcp_client_test.cpp
// and tcp_stock_test.cpp.
#include "unisono/store/tcp_store.hpp"

#include <fcntl.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <regex>
#include <sys/socket.h>
#include <unistd.h>

#include "unisono/base/error.hpp"

#include "base/fd.hpp"
#include "base/str.hpp"
#include "net/net_support.hpp"
#include "store/expect.hpp"
#include "support/blocked_call.hpp"
#include "support/bounds.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::BlockedCall;
using test::EndsInTime;
using test::errorOf;
using test::reasonOf;
using test::ScopedEnv;
using test::textOf;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;

constexpr const char* kHost = "127.0.0.1";

TCPStoreOptions serverOptions(bool useLibUv = true) {
  return {.port = 0, .isServer = true, .timeout = 20s, .useLibUV = useLibUv};
}

TCPStoreOptions clientOptions(std::uint16_t port, std::chrono::milliseconds timeout = 20s) {
  return {.port = port, .timeout = timeout};
}

/// Both event loops.
class TCPStoreTest : public ::testing::TestWithParam<bool> {
 protected:
  bool useLibUv() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Loops, TCPStoreTest, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Uv" : "Poll"; });

TEST_P(TCPStoreTest, WarnsWhenMoreWorkersMayComeAtOnceThanTheKernelQueues) {
  const test::LogCapture log;
  TCPStoreOptions options = serverOptions(useLibUv());
  options.waitWorkers = false;
  options.numWorkers = 2;
  const TCPStore few(kHost, options);
  EXPECT_THAT(log.lines(), testing::Not(testing::Contains(HasSubstr("somaxconn"))));
  options.numWorkers = 2'000'000'000;  // no kernel queues so many
  const TCPStore many(kHost, options);
  EXPECT_THAT(log.lines(), testing::Contains(HasSubstr("raise net.core.somaxconn")));
}

TEST_P(TCPStoreTest, SaysWhereItIs) {
  const TCPStore server("localhost", serverOptions(useLibUv()));
  const TCPStore client("localhost", {.port = server.port(), .useLibUV = useLibUv()});

  EXPECT_NE(server.port(), 0);
  EXPECT_EQ(client.port(), server.port());
  EXPECT_EQ(server.host(), "localhost");
  EXPECT_EQ(client.host(), "localhost");
  EXPECT_EQ(server.isLibUvBackend(), useLibUv());
  EXPECT_EQ(client.isLibUvBackend(), useLibUv());
  EXPECT_TRUE(server.hasNativeServer());
  EXPECT_TRUE(client.hasNativeServer());
}

TEST_P(TCPStoreTest, ShowsItselfAsPyTorchDoes) {
  const TCPStore server(kHost, serverOptions(useLibUv()));
  const TCPStore client(kHost, clientOptions(server.port()));
  const std::string at = R"((\[localhost\]|localhost):\d+)";
  const std::string socket = str(R"(SocketImpl\(fd=\d+, addr=)", at, ", remote=", at, R"(\))");

  EXPECT_TRUE(std::regex_match(
      server.repr(), std::regex(str(R"(TCPStore\(client=TCPClient\()", socket,
                                    R"(\), server=TCPServer\(port=)", server.port(), R"(\)\))"))))
      << server.repr();
  EXPECT_TRUE(std::regex_match(client.repr(), std::regex(str(R"(TCPStore\(client=TCPClient\()",
                                                             socket, R"(\), server=<nullptr>\))"))))
      << client.repr();
}

TEST_P(TCPStoreTest, SaysThatThePortIsTaken) {
  const TCPStore first(kHost, serverOptions(useLibUv()));
  TCPStoreOptions options = serverOptions(useLibUv());
  options.port = first.port();

  const auto facts = errorOf<DistNetworkError>([&] { TCPStore(kHost, options); });

  ASSERT_TRUE(facts);
  EXPECT_THAT(facts->what,
              AllOf(StartsWith("The server socket has failed to listen on any local network "
                               "address."),
                    HasSubstr(str(first.port())), HasSubstr("Address already in use"),
                    HasSubstr("address already in use"), HasSubstr(str("pid ", ::getpid()))));
  EXPECT_EQ(facts->reason, Reason::RESOURCE);
}

TEST_P(TCPStoreTest, AnotherServerMayFollowOnTheSamePort) {
  std::uint16_t port = 0;
  for (int i = 0; i < 5; ++i) {
    TCPStoreOptions options = serverOptions(useLibUv());
    options.port = port;
    TCPStore store(kHost, options);
    port = store.port();

    EXPECT_FALSE(store.check({"k"})) << "nothing is left of the one before";
    store.set("k", "v");
    EXPECT_EQ(store.getString("k"), "v");
  }
}

TEST_P(TCPStoreTest, TakesOverAListeningSocket) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const SocketAddress any = SocketAddress::loopback(AF_INET, 0);
  ASSERT_EQ(::bind(fd, any.raw(), any.size()), 0);
  const std::uint16_t port = SocketAddress::localOf(fd).port();
  TCPStoreOptions options = serverOptions(useLibUv());
  options.port = port;
  options.masterListenFd = fd;
  {
    TCPStore server(kHost, options);
    TCPStore client(kHost, clientOptions(port));

    EXPECT_EQ(server.port(), port);
    client.set("k", "v");
    EXPECT_EQ(server.getString("k"), "v");
  }
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1) << "it belonged to the server, which has closed it";
}

TEST_P(TCPStoreTest, TakesThePortFromTheSocketItTakesOver) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const SocketAddress any = SocketAddress::loopback(AF_INET, 0);
  ASSERT_EQ(::bind(fd, any.raw(), any.size()), 0);
  TCPStoreOptions options = serverOptions(useLibUv());
  options.masterListenFd = fd;

  TCPStore server(kHost, options);

  EXPECT_EQ(server.port(), SocketAddress::localOf(fd).port());
}

TEST_P(TCPStoreTest, RefusesASocketOnAnotherPort) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  const SocketAddress any = SocketAddress::loopback(AF_INET, 0);
  ASSERT_EQ(::bind(fd.get(), any.raw(), any.size()), 0);
  const std::uint16_t port = SocketAddress::localOf(fd.get()).port();
  TCPStoreOptions options = serverOptions(useLibUv());
  options.port = static_cast<std::uint16_t>(port + 1);
  options.masterListenFd = fd.get();

  EXPECT_THAT(textOf([&] { TCPStore(kHost, options); }),
              HasSubstr(str("listen fd ", fd.get(), " is bound to port ", port,
                            ", expected to be bound to port ", port + 1)));

  options.masterListenFd = 999;
  EXPECT_THAT(textOf<DistNetworkError>([&] { TCPStore(kHost, options); }),
              AllOf(HasSubstr("999"), HasSubstr("EBADF")));
}

TEST_P(TCPStoreTest, WaitsForItsWorkers) {
  TCPStoreOptions options = serverOptions(useLibUv());
  options.numWorkers = 3;
  options.waitWorkers = false;
  TCPStore server(kHost, options);  // not counted until it asks to be
  TCPStoreOptions worker = clientOptions(server.port());
  worker.numWorkers = 3;

  const TCPStore first(kHost, worker);
  BlockedCall waiting([&] { return server.waitForWorkers(), true; });
  EXPECT_TRUE(waiting.staysBlocked());
  const TCPStore second(kHost, worker);

  EXPECT_TRUE(waiting.result());
  EXPECT_EQ(server.numKeys(), 1) << "the count of workers";
  EXPECT_THAT(server.listKeys(), ::testing::IsEmpty());
}

TEST_P(TCPStoreTest, SaysHowManyWorkersAreMissing) {
  TCPStoreOptions options = serverOptions(useLibUv());
  options.numWorkers = 2;
  options.timeout = 300ms;
  const EndsInTime bound(300ms);

  EXPECT_THAT(
      textOf([&] { TCPStore(kHost, options); }),
      AllOf(ContainsRegex("Timed out after [0-9]+ seconds waiting for clients\\. 1/2 clients "
                          "joined\\."),
            HasSubstr("[TIMEOUT]")));
}

TEST_P(TCPStoreTest, LeavesNothingBehindWhenWorkersAreMissing) {
  const auto entries = [](const char* folder) {
    const std::filesystem::directory_iterator all(folder);
    return std::distance(begin(all), end(all));
  };
  TCPStoreOptions options = serverOptions(useLibUv());
  options.numWorkers = 2;
  options.timeout = 500ms;
  errorOf([&] { TCPStore(kHost, options); });  // whatever is made once and for all
  const auto threads = entries("/proc/self/task");
  const auto descriptors = entries("/proc/self/fd");
  test::ClosedPort reserved;
  options.port = reserved.number();
  options.masterListenFd = reserved.release();

  EXPECT_EQ(reasonOf([&] { TCPStore(kHost, options); }), Reason::TIMEOUT);

  EXPECT_EQ(::fcntl(*options.masterListenFd, F_GETFD), -1) << "it had been taken over";
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
  EXPECT_TRUE(test::eventually([&] { return entries("/proc/self/task") == threads; }));
  options.masterListenFd = std::nullopt;
  options.numWorkers = 1;
  options.timeout = 20s;
  const TCPStore next(kHost, options);  // the port is free
}

TEST_P(TCPStoreTest, DoesNotWaitForWorkersUnlessAsked) {
  TCPStoreOptions options = serverOptions(useLibUv());
  options.numWorkers = 2;
  options.waitWorkers = false;

  TCPStore server(kHost, options);

  EXPECT_EQ(server.numKeys(), 0);
}

TEST_P(TCPStoreTest, ManyWorkersMeetOneAfterTheOther) {
  TCPStoreOptions options = serverOptions(useLibUv());
  options.numWorkers = 6;
  test::ClosedPort reserved;
  const std::uint16_t port = reserved.number();
  options.port = port;
  options.masterListenFd = reserved.release();
  BlockedCall serving([&] { return std::make_shared<TCPStore>(kHost, options); });
  TCPStoreOptions worker = clientOptions(port);
  worker.numWorkers = 6;
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(serving.finished());
    TCPStore client(kHost, worker);
    client.set(str("key", i), str("value", i));
    EXPECT_EQ(client.compareSet(str("key", i), str("value", i), "new"), "new");
  }

  const std::shared_ptr<TCPStore> server = serving.result();

  EXPECT_EQ(server->numKeys(), 6);
  EXPECT_EQ(server->getString("key0"), "new") << "data survive the clients that wrote them";
}

TEST(TCPStoreOptionsTest, RefusesWhatMakesNoSense) {
  EXPECT_THAT(textOf<UsageError>([] { TCPStore(kHost, {.port = 1, .numWorkers = 0}); }),
              AllOf(HasSubstr("TCPStore world size cannot be 0"), HasSubstr("[USAGE]")));
  EXPECT_THAT(textOf<UsageError>(
                  [] { TCPStore(kHost, {.port = 1, .numWorkers = SIZE_MAX, .timeout = 1ms}); }),
              HasSubstr("negative"));
  EXPECT_THAT(textOf<UsageError>([] { TCPStore("", {.port = 1}); }), HasSubstr("host"));
  EXPECT_THAT(textOf<UsageError>(
                  [] { TCPStore(std::string("127.0.0.1\0x", 11), {.port = 1, .timeout = 1ms}); }),
              HasSubstr("'127.0.0.1\\x00x'"));
  EXPECT_THAT(textOf<UsageError>([] { TCPStore(kHost, {.port = 0}); }), HasSubstr("port"));
  EXPECT_THAT(textOf<UsageError>([] { TCPStore(kHost, {.port = 1, .timeout = -1ms}); }),
              HasSubstr("negative"));
}

TEST(TCPStoreOptionsTest, DefaultsAreThoseOfC10d) {
  const TCPStoreOptions options;

  EXPECT_EQ(options.port, 29500);
  EXPECT_FALSE(options.isServer);
  EXPECT_TRUE(options.waitWorkers);
  EXPECT_TRUE(options.useLibUV);
  EXPECT_FALSE(options.multiTenant);
  TCPStore server(kHost, {.port = 0, .isServer = true});
  EXPECT_EQ(server.timeout(), 300s);
}

TEST(TCPStoreOptionsTest, RefusesToListenBeyondLoopbackWithoutPermission) {
  EXPECT_THAT(textOf<DistNetworkError>([] { TCPStore("0.0.0.0", {.port = 0, .isServer = true}); }),
              AllOf(HasSubstr("[CONFIG]"), HasSubstr("UNISONO_ALLOW_UNAUTHENTICATED")));
}

TEST(TCPStoreOptionsTest, ASocketThatItMayNotListenOnStaysItsOwners) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress everywhere = SocketAddress::parse("0.0.0.0", 0).value();
  ASSERT_EQ(::bind(fd.get(), everywhere.raw(), everywhere.size()), 0);

  EXPECT_THAT(textOf<DistNetworkError>([&] {
                TCPStore(kHost, {.port = 0, .isServer = true, .masterListenFd = fd.get()});
              }),
              HasSubstr("UNISONO_ALLOW_UNAUTHENTICATED"));

  EXPECT_NE(::fcntl(fd.get(), F_GETFD), -1);
}

TEST(TCPStoreOptionsTest, RefusesToListenForANameThatIsNotOfThisHost) {
  EXPECT_THAT(
      textOf<DistNetworkError>([] { TCPStore("192.0.2.1", {.port = 0, .isServer = true}); }),
      AllOf(HasSubstr("failed to listen"), HasSubstr("[CONFIG]"), HasSubstr("192.0.2.1")));
}

TEST(TCPStoreSharingTest, TenantsOfOnePortShareTheServer) {
  TCPStoreOptions options = serverOptions();
  options.multiTenant = true;
  auto first = std::make_unique<TCPStore>(kHost, options);
  options.port = first->port();
  auto second = std::make_unique<TCPStore>(kHost, options);
  options.useLibUV = false;
  TCPStore third(kHost, options);

  first->set("k", "v");
  EXPECT_EQ(second->getString("k"), "v");
  EXPECT_EQ(second->port(), first->port());
  EXPECT_FALSE(third.isLibUvBackend()) << "reported as asked for, whatever serves";
  first.reset();
  second.reset();

  EXPECT_EQ(third.getString("k"), "v") << "the last tenant keeps the server";
}

TEST(TCPStoreSharingTest, ATenantsSocketIsClosedWhenAnotherOneServesThePort) {
  test::ClosedPort bound;
  TCPStoreOptions options = serverOptions();
  options.port = bound.number();
  options.multiTenant = true;
  options.masterListenFd = bound.release();
  TCPStore first(kHost, options);
  options.masterListenFd = ::dup(*options.masterListenFd);

  TCPStore second(kHost, options);

  // The number may be that of the store's own connection by now.
  int listens = 0;
  socklen_t size = sizeof listens;
  static_cast<void>(
      ::getsockopt(*options.masterListenFd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size));
  EXPECT_EQ(listens, 0) << "it was handed over";
  first.set("k", "v");
  EXPECT_EQ(second.getString("k"), "v");
  const UniqueFd other(test::ClosedPort().release());
  options.masterListenFd = other.get();
  EXPECT_THAT(textOf([&] { TCPStore(kHost, options); }), HasSubstr("expected to be bound to port"));
  EXPECT_NE(::fcntl(other.get(), F_GETFD), -1);
}

TEST(TCPStoreSharingTest, APortThatWasGivenUpIsServedAnew) {
  TCPStoreOptions options = serverOptions();
  options.multiTenant = true;
  {
    TCPStore first(kHost, options);
    options.port = first.port();
    first.set("k", "v");
  }

  TCPStore second(kHost, options);
  TCPStore third(kHost, options);

  EXPECT_FALSE(second.check({"k"}));
  second.set("k", "new");
  EXPECT_EQ(third.getString("k"), "new");
}

TEST(TCPStoreSharingTest, OneWhoDoesNotShareIsNotShared) {
  const TCPStore alone(kHost, serverOptions());
  TCPStoreOptions options = serverOptions();
  options.multiTenant = true;
  options.port = alone.port();

  EXPECT_THAT(textOf<DistNetworkError>([&] { TCPStore(kHost, options); }),
              HasSubstr("address already in use"));
}

TEST(TCPStoreSharingTest, AnAgentsStoreIsUsedWhereTheEnvironmentSaysSo) {
  TCPStore agent(kHost, serverOptions());
  TCPStoreOptions options = serverOptions();
  options.port = agent.port();
  const ScopedEnv port("MASTER_PORT", str(agent.port()));
  for (const char* yes : {"1", "True", "yes", "T", "y"}) {
    const ScopedEnv use("TORCHELASTIC_USE_AGENT_STORE", yes);

    TCPStore worker(kHost, options);

    EXPECT_EQ(worker.port(), agent.port());
    EXPECT_THAT(worker.repr(), HasSubstr("server=<nullptr>"));
    worker.set("k", yes);
    EXPECT_EQ(agent.getString("k"), yes);
  }
  for (const char* no : {"0", "False", "", "no"}) {
    const ScopedEnv use("TORCHELASTIC_USE_AGENT_STORE", no);
    EXPECT_THROW(TCPStore(kHost, options), DistNetworkError) << no;
  }
  const ScopedEnv use("TORCHELASTIC_USE_AGENT_STORE", "1");
  const ScopedEnv otherPort("MASTER_PORT", "1");
  EXPECT_THROW(TCPStore(kHost, options), DistNetworkError);
}

TEST_P(TCPStoreTest, ACloneIsAClientOfItsOwn) {
  auto server = std::make_unique<TCPStore>(kHost, serverOptions(useLibUv()));
  server->setTimeout(7s);
  const StorePtr clone = server->clone();
  server->set("k", "v");

  EXPECT_EQ(clone->getString("k"), "v");
  EXPECT_EQ(clone->timeout(), 7s);
  const auto* client = dynamic_cast<const TCPStore*>(clone.get());
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(client->port(), server->port());
  EXPECT_EQ(client->isLibUvBackend(), useLibUv());
  server.reset();

  EXPECT_EQ(reasonOf<DistNetworkError>([&] { clone->get("k"); }), Reason::STORE_LOST)
      << "a clone does not keep the server";
}

TEST_P(TCPStoreTest, DestroyingTheServerEndsWhatItsClientsWaitFor) {
  auto server = std::make_unique<TCPStore>(kHost, serverOptions(useLibUv()));
  TCPStore client(kHost, clientOptions(server->port()));
  BlockedCall getting([&] { return client.getString("k"); });
  BlockedCall popping([&] { return client.queuePop("q"); });
  BlockedCall meeting([&] { return client.barrier("b", 2), true; });
  const auto start = std::chrono::steady_clock::now();

  server.reset();

  const std::string text = textOf<DistNetworkError>([&] { getting.result(); });
  EXPECT_THAT(text, AllOf(HasSubstr("[STORE_LOST]"), HasSubstr("got 0 bytes. Connection was likely "
                                                               "closed. Did the remote server "
                                                               "shutdown or crash?")));
  EXPECT_EQ(reasonOf<DistNetworkError>([&] { popping.result(); }), Reason::STORE_LOST);
  EXPECT_EQ(reasonOf<DistNetworkError>([&] { meeting.result(); }), Reason::STORE_LOST);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(reasonOf<DistNetworkError>([&] { client.set("k", "v"); }), Reason::STORE_LOST);
    EXPECT_EQ(reasonOf<DistNetworkError>([&] { client.numKeys(); }), Reason::STORE_LOST);
  }
}

}  // namespace
}  // namespace unisono

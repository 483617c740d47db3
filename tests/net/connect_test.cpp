#include "net/connect.hpp"

#include <gmock/gmock.h>
#include <netinet/in.h>

#include "base/thread.hpp"
#include "net/net_support.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// The error of a connection attempt that fails, and how long it took.
struct Failure {
  std::string text;
  Reason reason = Reason::USAGE;
  Milliseconds took{0};
};

Failure failToConnect(const std::string& host, std::uint16_t port, Milliseconds timeout) {
  const TimePoint start = systemClock().now();
  try {
    static_cast<void>(connectTo(host, port, Deadline::after(timeout), timeout));
  } catch (const DistNetworkError& error) {
    return {error.what(), error.reason(), elapsedSince(start)};
  }
  ADD_FAILURE() << "connected";
  return {};
}

/// Ten times what is promised (50 ms late at most).
void expectOnTime(Milliseconds took, Milliseconds timeout) {
  EXPECT_GE(took, timeout);
  EXPECT_LT(took, timeout + Milliseconds(500));
}

TEST(ConnectTest, GivesUpOnAClosedPortAtTheDeadlineAndNotBefore) {
  const test::ClosedPort port;

  const Failure failure = failToConnect("127.0.0.1", port.number(), Milliseconds(150));

  expectOnTime(failure.took, Milliseconds(150));
  EXPECT_EQ(failure.reason, Reason::PEER_UNREACHABLE);
  EXPECT_THAT(
      failure.text,
      AllOf(HasSubstr(str("The client socket has timed out after 150ms while trying to "
                          "connect to (127.0.0.1, ",
                          port.number(), ")")),
            HasSubstr(str("127.0.0.1:", port.number(), ": Connection refused (ECONNREFUSED), ")),
            ContainsRegex("[2-9][0-9]* attempts"), HasSubstr("DO: is the server (rank 0) running"),
            HasSubstr("[PEER_UNREACHABLE]")));
}

TEST(ConnectTest, ListsEveryAddressItTried) {
  const test::ClosedPort port;

  const Failure failure = failToConnect("localhost", port.number(), Milliseconds(30));

  EXPECT_THAT(failure.text, AllOf(HasSubstr(str("127.0.0.1:", port.number(), ": Connection")),
                                  HasSubstr(str("[::1]:", port.number(), ": "))));
}

TEST(ConnectTest, KeepsTryingToResolveAnUnknownNameUntilTheDeadline) {
  const Failure failure = failToConnect("no-such-host.invalid", 29500, Milliseconds(200));

  expectOnTime(failure.took, Milliseconds(200));
  EXPECT_EQ(failure.reason, Reason::CONFIG);
  EXPECT_THAT(failure.text,
              AllOf(ContainsRegex("client socket has timed out after.*no-such-host.invalid"),
                    HasSubstr("could not be resolved")));
}

TEST(ConnectTest, GivesUpAtOnceWhenNothingIsWorthRetrying) {
  // A link-local address without a scope leads nowhere.
  const Failure failure = failToConnect("fe80::1", 29500, std::chrono::seconds(20));

  EXPECT_LT(failure.took, Milliseconds(2000));
  EXPECT_THAT(failure.text, AllOf(HasSubstr("The client socket has failed to connect to any "
                                            "network address of (fe80::1, 29500)"),
                                  HasSubstr("EINVAL")));
}

TEST(ConnectTest, GivesUpAtOnceOnAMalformedAddress) {
  const Failure failure = failToConnect("fe80::zz", 29500, std::chrono::seconds(20));

  EXPECT_LT(failure.took, Milliseconds(2000));
  EXPECT_EQ(failure.reason, Reason::CONFIG);
  EXPECT_THAT(failure.text, HasSubstr("neither a name nor a valid address"));
}

TEST(ConnectTest, FindsAServerThatAppearsLate) {
  auto bound = std::make_unique<test::ClosedPort>();
  const std::uint16_t port = bound->number();
  ConnectHistory history({"127.0.0.1", port}, Milliseconds(0));
  ASSERT_FALSE(tryConnectOnce(history, test::soon()).socket.valid());
  std::optional<Listener> listener;
  Socket socket;
  {
    const Thread client("client", [&] {
      socket = connectTo("127.0.0.1", port, test::soon(), std::chrono::seconds(20));
    });
    bound.reset();
    listener = Listener::open("127.0.0.1", port, "auto", test::soon());
  }

  EXPECT_EQ(socket.peerAddress().port(), port);
  EXPECT_EQ(acceptOne(listener->fds().front()).status, AcceptStatus::GOT);
}

TEST(ConnectTest, MakesOneAttemptWhenThereIsNoTime) {
  const Listener listener = test::listenOn("localhost");
  const test::ClosedPort closed;

  EXPECT_TRUE(
      connectTo("localhost", listener.port(), Deadline::after(Milliseconds(0)), Milliseconds(0))
          .valid());
  EXPECT_THAT(failToConnect("127.0.0.1", closed.number(), Milliseconds(0)).text,
              AllOf(HasSubstr("timed out after 0ms"), HasSubstr("ECONNREFUSED"),
                    HasSubstr(", 1 attempt.")));
}

TEST(ConnectTest, ReachesAServerThatListensOnOnlyOneFamily) {
  for (const char* host : {"127.0.0.1", "::1"}) {
    const Listener listener = test::listenOn(host);

    const Socket socket =
        connectTo("localhost", listener.port(), test::soon(), std::chrono::seconds(20));

    EXPECT_EQ(socket.peerAddress(), listener.addresses().front());
  }
}

TEST(ConnectTest, GivesUpOnAFullQueueAtTheDeadline) {
  const test::SilentPort silent("127.0.0.1");

  const Failure failure = failToConnect("127.0.0.1", silent.address().port(), Milliseconds(120));

  expectOnTime(failure.took, Milliseconds(120));
  EXPECT_EQ(failure.reason, Reason::PEER_UNREACHABLE);
  EXPECT_THAT(failure.text, HasSubstr("no answer, 1 attempt"));
}

TEST(ConnectTest, SetsItsSocketsUpForStreams) {
  const Listener listener = test::listenOn("127.0.0.1");
  const Socket socket = connectTo("127.0.0.1", listener.port(), test::soon(), Milliseconds(0));
  int value = 0;
  socklen_t size = sizeof value;

  ::getsockopt(socket.fd(), SOL_SOCKET, SO_KEEPALIVE, &value, &size);

  EXPECT_EQ(value, 1);
}

TEST(ConnectTest, SaysAfterAWhileWhatItWaitsFor) {
  const test::ScopedEnv env("UNISONO_HANG_WARN", "0.05");
  const test::LogCapture log;
  const test::ClosedPort port;

  static_cast<void>(failToConnect("127.0.0.1", port.number(), Milliseconds(300)));

  EXPECT_THAT(log.lines(), ElementsAre(AllOf(HasSubstr(str("127.0.0.1:", port.number())),
                                             HasSubstr("ECONNREFUSED"))));
}

TEST(ConnectRaceTest, PassesOverADeadAddressAtOnce) {
  const test::ClosedPort closed;
  const Listener listener = test::listenOn("127.0.0.1");
  Milliseconds fastest = Milliseconds::max();
  for (int i = 0; i < 5; ++i) {  // one may be unlucky
    ConnectHistory history({"name", listener.port()}, Milliseconds(0));
    const TimePoint start = systemClock().now();

    const ConnectRound round = detail::raceOnce(
        history, {SocketAddress::loopback(AF_INET, closed.number()), listener.addresses().front()},
        test::soon());

    fastest = std::min(fastest, elapsedSince(start));
    ASSERT_TRUE(round.socket.valid());
    EXPECT_EQ(round.socket.peerAddress(), listener.addresses().front());
    EXPECT_THAT(history.describe(), HasSubstr("ECONNREFUSED"));
  }
  EXPECT_LT(fastest, Milliseconds(240));
}

TEST(ConnectRaceTest, AddressesOutOfReachDoNotHideThatNobodyListens) {
  const test::ClosedPort closed;
  const SocketAddress dead = SocketAddress::loopback(AF_INET, closed.number());
  // Nobody connects to a group of hosts: the kernel says that its network cannot be reached.
  const SocketAddress group = SocketAddress::parse("224.0.0.1", closed.number()).value();
  ConnectHistory history({"name", closed.number()}, Milliseconds(0));

  EXPECT_TRUE(detail::raceOnce(history, {group, dead}, test::soon()).refused) << history.describe();
  EXPECT_TRUE(detail::raceOnce(history, {dead, group}, test::soon()).refused);
  EXPECT_FALSE(detail::raceOnce(history, {group}, test::soon()).refused);
  EXPECT_FALSE(detail::raceOnce(history, {}, test::soon()).refused);
  EXPECT_THAT(history.describe(), HasSubstr("ENETUNREACH"));
}

TEST(ConnectRaceTest, ASilentAddressIsNotTakenForOneWhereNobodyListens) {
  const test::ClosedPort closed;
  const test::SilentPort silent("127.0.0.1");
  ConnectHistory history({"name", closed.number()}, Milliseconds(0));

  EXPECT_FALSE(detail::raceOnce(
                   history, {silent.address(), SocketAddress::loopback(AF_INET, closed.number())},
                   Deadline::after(Milliseconds(300)))
                   .refused)
      << history.describe();
}

TEST(ConnectRaceTest, DoesNotWaitForASilentAddressBeforeTryingTheNext) {
  const test::SilentPort silent("127.0.0.1");
  const Listener listener = test::listenOn("127.0.0.1");
  ConnectHistory history({"name", listener.port()}, Milliseconds(0));
  const TimePoint start = systemClock().now();

  const ConnectRound round =
      detail::raceOnce(history, {silent.address(), listener.addresses().front()}, test::soon());

  ASSERT_TRUE(round.socket.valid());
  EXPECT_EQ(round.socket.peerAddress(), listener.addresses().front());
  EXPECT_GE(elapsedSince(start), Milliseconds(250));
  EXPECT_LT(elapsedSince(start), Milliseconds(1000));
  EXPECT_THAT(history.describe(), Not(HasSubstr("no answer")));
}

TEST(ConnectRaceTest, LetsTheFamiliesTakeTurns) {
  std::vector<SocketAddress> addresses;
  for (const char* literal : {"::1", "::2", "::3", "10.0.0.1", "10.0.0.2"}) {
    addresses.push_back(SocketAddress::parse(literal, 0).value());
  }
  std::vector<std::string> order;
  for (const SocketAddress& address : detail::interleaved(addresses)) {
    order.push_back(address.hostText());
  }

  EXPECT_THAT(order, ElementsAre("::1", "10.0.0.1", "::2", "10.0.0.2", "::3"));
}

TEST(ConnectRaceTest, TakesAConnectionToItselfForNone) {
  // A socket that connects to its own address meets itself: TCP's simultaneous open.
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress any = SocketAddress::loopback(AF_INET, 0);
  ASSERT_EQ(::bind(fd.get(), any.raw(), any.size()), 0);
  const SocketAddress self = SocketAddress::localOf(fd.get());
  ASSERT_EQ(::connect(fd.get(), self.raw(), self.size()), 0);
  const Listener listener = test::listenOn("127.0.0.1");
  const Socket other = connectTo("127.0.0.1", listener.port(), test::soon(), Milliseconds(0));

  EXPECT_TRUE(detail::isSelfConnected(fd.get()));
  EXPECT_FALSE(detail::isSelfConnected(other.fd()));
}

TEST(ConnectHistoryTest, CountsAttemptsPerAddressAndKeepsTheLastReason) {
  ConnectHistory history({"node0", 29500}, Milliseconds(1000));
  const SocketAddress first = SocketAddress::parse("10.0.0.1", 29500).value();
  const SocketAddress second = SocketAddress::parse("10.0.0.2", 29500).value();

  history.addFailure(first, "Connection refused (ECONNREFUSED)");
  history.addFailure(second, "no answer");
  history.addFailure(first, "the peer closed during the handshake");
  history.addResolveFailure("Temporary failure in name resolution");

  EXPECT_EQ(history.describe(),
            "10.0.0.1:29500: the peer closed during the handshake, 2 attempts; "
            "10.0.0.2:29500: no answer, 1 attempt; "
            "the name 'node0' could not be resolved: Temporary failure in name resolution "
            "(tried 1 time)");
  EXPECT_EQ(history.timedOut().reason(), Reason::PEER_UNREACHABLE);
  EXPECT_EQ(history.timedOut().facts().host, "node0:29500");
}

}  // namespace
}  // namespace unisono

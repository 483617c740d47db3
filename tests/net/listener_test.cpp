#include "net/listener.hpp"

#include <fcntl.h>
#include <fstream>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <unistd.h>

#include "unisono/base/error.hpp"

#include "net/net_support.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

bool canConnect(const std::string& host, std::uint16_t port) {
  ConnectHistory history({host, port}, Milliseconds(0));
  return tryConnectOnce(history, test::soon()).socket.valid();
}

bool hasIpv6() {
  return UniqueFd(::socket(AF_INET6, SOCK_STREAM, 0)).valid() &&
         test::listenOn("localhost").addresses().size() == 2;
}

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  ::getsockopt(fd, level, name, &value, &size);
  return value;
}

/// A socket bound to a port of 127.0.0.1 that does not listen yet, as users pass them.
class BoundSocket {
 public:
  BoundSocket() : fd(::socket(AF_INET, SOCK_STREAM, 0)) {
    const SocketAddress any = SocketAddress::loopback(AF_INET, 0);
    ::bind(fd, any.raw(), any.size());
    port = SocketAddress::localOf(fd).port();
  }
  int fd;
  std::uint16_t port;
};

TEST(ListenerTest, ListensOnTheGivenAddressOnly) {
  const Listener listener = test::listenOn("127.0.0.1");

  EXPECT_TRUE(canConnect("127.0.0.1", listener.port()));
  EXPECT_FALSE(canConnect("127.0.0.2", listener.port()));
  EXPECT_FALSE(canConnect("::1", listener.port()));
  EXPECT_TRUE(listener.isLoopbackOnly());
  EXPECT_EQ(listener.addresses().size(), 1U);
}

TEST(ListenerTest, TakesLocalhostForBothLoopbackAddressesWithOnePort) {
  if (!hasIpv6()) {
    GTEST_SKIP() << "this host has no IPv6 loopback";
  }
  const Listener listener = test::listenOn("localhost");

  EXPECT_TRUE(canConnect("127.0.0.1", listener.port()));
  EXPECT_TRUE(canConnect("::1", listener.port()));
  EXPECT_FALSE(canConnect("127.0.0.2", listener.port()));
  EXPECT_EQ(listener.addresses()[0].port(), listener.addresses()[1].port());
  EXPECT_EQ(listener.fds().size(), 2U);
}

TEST(ListenerTest, ListensEverywhereOnlyWhenAskedTo) {
  const Listener listeners[] = {Listener::open("127.0.0.1", 0, "any", test::soon()),
                                Listener::open("0.0.0.0", 0, "auto", test::soon()),
                                Listener::open("::", 0, "auto", test::soon()),
                                Listener::open("127.0.0.1", 0, "0.0.0.0", test::soon())};
  for (const Listener& listener : listeners) {
    EXPECT_TRUE(canConnect("127.0.0.1", listener.port()));
    EXPECT_TRUE(canConnect("127.0.0.2", listener.port()));
    EXPECT_TRUE(canConnect("localhost", listener.port()));
    EXPECT_FALSE(listener.isLoopbackOnly());
    EXPECT_TRUE(listener.addresses().front().isWildcard());
  }
}

TEST(ListenerTest, ListensWhereTheBindAddressSaysWhateverTheHost) {
  const Listener listener = Listener::open("10.255.255.254", 0, "127.0.0.2", test::soon());

  EXPECT_EQ(listener.addresses().front().hostText(), "127.0.0.2");
}

TEST(ListenerTest, SetsItsSocketsUpForALoop) {
  const Listener listener = test::listenOn("127.0.0.1");
  const int fd = listener.fds().front();

  EXPECT_NE(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(option(fd, SOL_SOCKET, SO_REUSEADDR), 1);
  EXPECT_EQ(option(fd, SOL_SOCKET, SO_REUSEPORT), 0);
  EXPECT_EQ(acceptOne(fd).status, AcceptStatus::NOTHING);
}

TEST(ListenerTest, NamesTheProcessThatHasThePort) {
  const Listener listener = test::listenOn("127.0.0.1");

  for (const char* bind : {"auto", "any"}) {
    const auto again = [&] { Listener::open("127.0.0.1", listener.port(), bind, test::soon()); };
    EXPECT_THAT(
        again,
        ThrowsMessage<DistNetworkError>(
            AllOf(StartsWith("unisono: The server socket has failed to listen on any local network "
                             "address"),
                  HasSubstr(str("port: ", listener.port())), HasSubstr("address already in use"),
                  HasSubstr("Address already in use"), HasSubstr("EADDRINUSE"),
                  HasSubstr(str("in use by pid ", ::getpid(), " (net_tests)")),
                  HasSubstr("DO: use port 0"), HasSubstr("[RESOURCE]"))));
  }
}

TEST(ListenerTest, SaysHowToFindWhoHasThePortWhenThatCannotBeSeen) {
  const BoundSocket taken;  // the kernel shows only those that listen or are connected
  const UniqueFd owner(taken.fd);

  EXPECT_THAT([&] { Listener::open("127.0.0.1", taken.port, "auto", test::soon()); },
              ThrowsMessage<DistNetworkError>(
                  AllOf(HasSubstr("address already in use. DO: use port 0, or look for who has it"),
                        Not(HasSubstr("that process")))));
}

TEST(ListenerTest, RefusesAPortThatIsTakenOnOneOfItsAddresses) {
  if (!hasIpv6()) {
    GTEST_SKIP() << "this host has no IPv6 loopback";
  }
  const Listener taken = test::listenOn("::1");

  EXPECT_THAT([&] { Listener::open("localhost", taken.port(), "auto", test::soon()); },
              ThrowsMessage<DistNetworkError>(
                  AllOf(HasSubstr(str("[::1]:", taken.port())), HasSubstr("EADDRINUSE"))));
}

TEST(ListenerTest, MayBeReopenedAtOnceOnTheSamePort) {
  auto first = std::make_unique<Listener>(test::listenOn("127.0.0.1"));
  const std::uint16_t port = first->port();
  const Socket client = connectTo("127.0.0.1", port, test::soon(), Milliseconds(0));
  acceptOne(first->fds().front());  // closed by the server: this end goes to TIME_WAIT
  first.reset();

  EXPECT_EQ(Listener::open("127.0.0.1", port, "auto", test::soon()).port(), port);
}

TEST(ListenerTest, SaysWhenTheHostIsAnother) {
  EXPECT_THAT([] { Listener::open("203.0.113.77", 29500, "auto", test::soon()); },
              ThrowsMessage<DistNetworkError>(
                  AllOf(HasSubstr("203.0.113.77"), HasSubstr("not an address of this host"),
                        HasSubstr("UNISONO_STORE_BIND=any"), HasSubstr("[CONFIG]"))));
}

TEST(ListenerTest, SaysWhenTheNameIsUnknown) {
  EXPECT_THAT(
      [] {
        Listener::open("no-such-host.invalid", 0, "auto", Deadline::after(Milliseconds(5000)));
      },
      ThrowsMessage<DistNetworkError>(AllOf(HasSubstr("'no-such-host.invalid'"),
                                            HasSubstr("could not be resolved"),
                                            HasSubstr("[CONFIG]"))));
}

TEST(ListenerTest, SaysWhenThePortIsForbidden) {
  int firstFree = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_unprivileged_port_start") >> firstFree;
  if (firstFree < 80) {
    GTEST_SKIP() << "this host lets everybody have low ports";
  }
  const int status = test::runInChild([] {
    if (::getuid() == 0 && ::setuid(65534) != 0) {
      return true;
    }
    try {
      Listener::open("127.0.0.1", 79, "auto", test::soon());
    } catch (const DistNetworkError& error) {
      const std::string text = error.what();
      return error.reason() == Reason::RESOURCE && text.find("EACCES") != std::string::npos &&
             text.find("1024") != std::string::npos;
    }
    return false;
  });

  EXPECT_EQ(status, 0);
}

TEST(ListenerTest, TakesOverABoundSocket) {
  const BoundSocket bound;
  {
    const Listener listener = Listener::adopt(bound.fd, bound.port);

    EXPECT_EQ(listener.port(), bound.port);
    EXPECT_TRUE(canConnect("127.0.0.1", bound.port));
    EXPECT_TRUE(listener.isLoopbackOnly());
    EXPECT_NE(::fcntl(bound.fd, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(::fcntl(bound.fd, F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_EQ(::fcntl(bound.fd, F_GETFD), -1) << "it owns the socket, and closes it";
}

TEST(ListenerTest, TakesOverASocketThatListensAlreadyOnAnyPort) {
  const BoundSocket bound;
  ASSERT_EQ(::listen(bound.fd, 1), 0);

  EXPECT_EQ(Listener::adopt(bound.fd, 0).port(), bound.port);
}

TEST(ListenerTest, LeavesASocketWithTheWrongPortToItsOwner) {
  const BoundSocket bound;
  const auto wrong = static_cast<std::uint16_t>(bound.port ^ 1U);

  EXPECT_THAT([&] { Listener::adopt(bound.fd, wrong); },
              ThrowsMessage<DistStoreError>(
                  AllOf(HasSubstr(str("listen fd ", bound.fd, " is bound to port ", bound.port,
                                      ", expected to be bound to port ", wrong)),
                        HasSubstr("[CONFIG]"))));
  EXPECT_EQ(::close(bound.fd), 0);
}

TEST(ListenerTest, RefusesWhatIsNoBoundTcpSocket) {
  const auto refuses = [](int fd, const char* why) {
    EXPECT_THAT(
        [&] { Listener::adopt(fd, 0); },
        ThrowsMessage<DistNetworkError>(AllOf(HasSubstr(str("fd ", fd, ":")), HasSubstr(why))));
  };
  const UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd unbound(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd datagrams(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto pair = test::socketPair();

  refuses(9999, "EBADF");
  refuses(-1, "EBADF");
  refuses(file.get(), "ENOTSOCK");
  refuses(unbound.get(), "not bound");
  refuses(datagrams.get(), "not a TCP socket");
  refuses(pair.near.fd(), "not a TCP socket");
}

TEST(ListenerTest, ClosesInForkedChildren) {
  const Listener listener = test::listenOn("127.0.0.1");
  const int fd = listener.fds().front();

  // Not by whether the number is free: somebody else's fork handler may have taken it.
  EXPECT_EQ(test::runInChild([fd] { return SocketAddress::localOf(fd).family() == AF_UNSPEC; }), 0);
  EXPECT_TRUE(canConnect("127.0.0.1", listener.port()));
}

}  // namespace
}  // namespace unisono

#include "net/address.hpp"

#include <gmock/gmock.h>
#include <netinet/in.h>

#include "unisono/base/error.hpp"

#include "net/net_support.hpp"

namespace unisono {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

SocketAddress numeric(std::string_view literal, std::uint16_t port = 29500) {
  return SocketAddress::parse(literal, port).value();
}

TEST(SocketAddressTest, KnowsWhatMeansSomethingOnOneNetworkOnly) {
  for (const char* local : {"169.254.0.1", "fe80::1", "febf::1"}) {
    EXPECT_TRUE(SocketAddress::parse(local, 1)->isLinkLocal()) << local;
  }
  for (const char* other : {"169.253.0.1", "10.0.0.1", "127.0.0.1", "fec0::1", "2001:db8::1"}) {
    EXPECT_FALSE(SocketAddress::parse(other, 1)->isLinkLocal()) << other;
  }
}

TEST(SocketAddressTest, PrintsNumbersAndNeverNames) {
  EXPECT_EQ(numeric("127.0.0.1").text(), "127.0.0.1:29500");
  EXPECT_EQ(numeric("10.1.2.3").text(), "10.1.2.3:29500");
  EXPECT_EQ(numeric("::1").text(), "[::1]:29500");
  EXPECT_EQ(numeric("::ffff:127.0.0.1").text(), "[::ffff:127.0.0.1]:29500");
  EXPECT_EQ(numeric("FD00::0002").text(), "[fd00::2]:29500");
  EXPECT_EQ(SocketAddress().text(), "unknown address");
}

TEST(SocketAddressTest, KeepsTheScopeOfLinkLocalAddresses) {
  EXPECT_EQ(numeric("fe80::1%lo").text(), "[fe80::1%lo]:29500");
  EXPECT_EQ(numeric("[fe80::1%lo]").hostText(), "fe80::1%lo");
  EXPECT_EQ(numeric("fe80::1%1").text(), "[fe80::1%lo]:29500");
  EXPECT_EQ(numeric("fe80::1%4000000000").text(), "[fe80::1%4000000000]:29500");
  EXPECT_FALSE(numeric("fe80::1%1") == numeric("fe80::1%2"));
}

TEST(SocketAddressTest, TakesLiteralsWithAndWithoutBrackets) {
  EXPECT_EQ(numeric("[::1]"), numeric("::1"));
  EXPECT_EQ(numeric("[10.0.0.1]"), numeric("10.0.0.1"));
  for (const char* wrong : {"", "[]", "[::1", "::1]", "localhost", "10.0.0.256", "::zz",
                            "fe80::1%no-such-interface", "10.0.0.1 ", "::1:::"}) {
    EXPECT_FALSE(SocketAddress::parse(wrong, 1).has_value()) << wrong;
  }
}

TEST(SocketAddressTest, KnowsLoopbackInEveryForm) {
  for (const char* literal : {"127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.2"}) {
    EXPECT_TRUE(numeric(literal).isLoopback()) << literal;
  }
  for (const char* literal : {"128.0.0.1", "0.0.0.0", "::", "::2", "::ffff:10.0.0.1", "fe80::1"}) {
    EXPECT_FALSE(numeric(literal).isLoopback()) << literal;
  }
  EXPECT_FALSE(SocketAddress().isLoopback());
}

TEST(SocketAddressTest, KnowsWildcards) {
  EXPECT_TRUE(numeric("0.0.0.0").isWildcard());
  EXPECT_TRUE(numeric("::").isWildcard());
  EXPECT_FALSE(numeric("127.0.0.1").isWildcard());
  EXPECT_FALSE(numeric("::1").isWildcard());
  EXPECT_FALSE(SocketAddress().isWildcard());
}

TEST(SocketAddressTest, ShowsLoopbackAsLocalhostToPeople) {
  EXPECT_EQ(numeric("127.0.0.1").textForRepr(), "localhost:29500");
  EXPECT_EQ(numeric("::1").textForRepr(), "[localhost]:29500");
  EXPECT_EQ(numeric("::ffff:127.0.0.1").textForRepr(), "[localhost]:29500");
  EXPECT_EQ(numeric("10.0.0.1").textForRepr(), "10.0.0.1:29500");
  EXPECT_EQ(numeric("fd00::2").textForRepr(), "[fd00::2]:29500");
}

TEST(SocketAddressTest, ChangesOnlyThePort) {
  const SocketAddress before = numeric("fe80::1%lo", 1);
  const SocketAddress after = before.withPort(65535);

  EXPECT_EQ(after.port(), 65535);
  EXPECT_EQ(after.hostText(), "fe80::1%lo");
  EXPECT_EQ(after.withPort(1), before);
  EXPECT_FALSE(after == before);
}

TEST(SocketAddressTest, ReadsBothEndsOfASocket) {
  const Listener listener = test::listenOn("::1");
  const Socket socket = connectTo("::1", listener.port(), test::soon(), Milliseconds(0));

  EXPECT_EQ(socket.peerAddress(), listener.addresses().front());
  EXPECT_EQ(socket.localAddress().hostText(), "::1");
  EXPECT_NE(socket.localAddress().port(), 0);
}

TEST(SocketAddressTest, IsUnspecifiedWhereThereIsNoSocket) {
  EXPECT_EQ(SocketAddress::localOf(-1).family(), AF_UNSPEC);
  EXPECT_EQ(SocketAddress::peerOf(-1).family(), AF_UNSPEC);
  EXPECT_EQ(test::socketPair().near.peerAddress().text(), "unix socket");
}

TEST(HostPortTest, IsParsedFromNamesAndAddresses) {
  EXPECT_EQ(parseHostPort("node-0.cluster:29500").host, "node-0.cluster");
  EXPECT_EQ(parseHostPort("node-0.cluster:29500").port, 29500);
  EXPECT_EQ(parseHostPort("[::1]:0").host, "::1");
  EXPECT_EQ(parseHostPort("[fe80::1%eth0]:65535").host, "fe80::1%eth0");
}

TEST(HostPortTest, PrintsWhatItCanParse) {
  for (const char* text : {"localhost:29500", "[::1]:29500", "[fe80::1%eth0]:1", "10.0.0.1:0"}) {
    EXPECT_EQ(parseHostPort(text).text(), text);
  }
}

TEST(HostPortTest, RefusesWhatIsAmbiguousOrIncomplete) {
  const auto refuses = [](std::string_view text, const char* why) {
    EXPECT_THAT([&] { parseHostPort(text); },
                ThrowsMessage<UsageError>(AllOf(HasSubstr(std::string(text)), HasSubstr(why))))
        << text;
  };
  refuses("localhost", "port is missing");
  refuses("::1", "needs brackets");
  refuses("fe80::1%lo:29500", "needs brackets");
  refuses("[::1:29500", "bracket");
  refuses("[[a]]:29500", "around the host");
  refuses("a]:29500", "around the host");
  refuses(":29500", "host is missing");
  refuses("[]:29500", "host is missing");
  refuses("a:", "65535");
  refuses("a:65536", "65535");
  refuses("a:-1", "65535");
  refuses("a:1x", "65535");
}

}  // namespace
}  // namespace unisono

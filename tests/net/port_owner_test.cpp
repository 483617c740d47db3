#include "net/port_owner.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include "base/str.hpp"
#include "net/net_support.hpp"

namespace unisono {
namespace {

std::string thisProcess() {
  return str("in use by pid ", ::getpid(), " (net_tests)");
}

TEST(PortOwnerTest, NamesWhoeverListensOnTheAddress) {
  for (const char* host : {"127.0.0.1", "::1"}) {
    const Listener listener = test::listenOn(host);

    EXPECT_EQ(portOwner(listener.addresses().front()), thisProcess());
  }
}

TEST(PortOwnerTest, NamesWhoeverListensEverywhere) {
  const Listener listener = test::listenOn("0.0.0.0");

  EXPECT_EQ(portOwner(SocketAddress::loopback(AF_INET, listener.port())), thisProcess());
  EXPECT_EQ(portOwner(SocketAddress::loopback(AF_INET6, listener.port())), thisProcess());
}

TEST(PortOwnerTest, NamesWhoeverIsInTheWayOfListeningEverywhere) {
  const Listener listener = test::listenOn("127.0.0.1");

  EXPECT_EQ(portOwner(SocketAddress::wildcard(AF_INET6, listener.port())), thisProcess());
}

TEST(PortOwnerTest, LeavesOutWhoeverListensElsewhere) {
  const Listener listener = test::listenOn("127.0.0.2");

  EXPECT_EQ(portOwner(SocketAddress::loopback(AF_INET, listener.port())), "");
}

TEST(PortOwnerTest, SaysNothingAboutAFreePort) {
  EXPECT_EQ(portOwner(SocketAddress::loopback(AF_INET, 0)), "");
  EXPECT_EQ(portOwner(SocketAddress()), "");
}

TEST(PortOwnerTest, KnowsAConnectionOfThisUser) {
  for (const char* host : {"127.0.0.1", "::1"}) {
    const Listener listener = test::listenOn(host);
    const Socket client = connectTo(host, listener.port(), test::soon(), Milliseconds(20'000));
    const AcceptResult server = acceptOne(listener.fds().front());

    EXPECT_FALSE(isOfAnotherUser(server.fd.get())) << host;
  }
}

TEST(PortOwnerTest, TakesWhoHasLeftForAnotherUser) {
  const Listener listener = test::listenOn("127.0.0.1");
  Socket client = connectTo("127.0.0.1", listener.port(), test::soon(), Milliseconds(20'000));
  const AcceptResult server = acceptOne(listener.fds().front());
  client = Socket();

  EXPECT_TRUE(isOfAnotherUser(server.fd.get()));
}

}  // namespace
}  // namespace unisono

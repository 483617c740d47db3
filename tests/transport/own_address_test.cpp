// Where a process tells others to connect to.
#include <filesystem>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/expect.hpp"
#include "support/support.hpp"
#include "transport/mesh_world.hpp"

namespace unisono::mesh {
namespace {

using test::MeshWorld;
using test::ScopedEnv;
using test::textOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

/// Those of rank 0.
std::vector<std::string> addressesIn(MeshWorld& world) {
  std::vector<std::string> hosts;
  for (const HostPort& each : world.mesh(0).roster().front().addresses) {
    hosts.push_back(each.host);
  }
  return hosts;
}

TEST(OwnAddressTest, OfAnInterfaceAllAddressesAreTold) {
  for (const char* variable : {"UNISONO_IFNAME", "GLOO_SOCKET_IFNAME"}) {
    for (const char* list : {"lo", "nosuch0,lo"}) {
      const ScopedEnv interface(variable, list);
      MeshWorld world(2);
      const auto hosts = addressesIn(world);
      EXPECT_EQ(hosts.front(), "127.0.0.1") << variable << "=" << list;
      EXPECT_EQ(hosts.size() > 1, ::access("/proc/net/if_inet6", R_OK) == 0);
    }
  }
}

TEST(OwnAddressTest, OursIsAskedBeforeThatOfGloo) {
  const ScopedEnv gloo("GLOO_SOCKET_IFNAME", "nosuch0");
  EXPECT_THAT(textOf<UsageError>([] { MeshWorld(1); }),
              AllOf(HasSubstr("GLOO_SOCKET_IFNAME is 'nosuch0'"), HasSubstr("it has lo"),
                    HasSubstr("[CONFIG]")));
  const ScopedEnv interface("UNISONO_IFNAME", "lo");
  MeshWorld world(1);
  EXPECT_EQ(addressesIn(world).front(), "127.0.0.1");
}

TEST(OwnAddressTest, WhatIsNoAddressOfOneHostIsRefused) {
  for (const char* wrong : {"0.0.0.0", "::", "*", "node3", "10.0.0.5:7", "10.0.0.256"}) {
    const ScopedEnv address("UNISONO_HOST_ADDR", wrong);
    EXPECT_THAT(textOf<UsageError>([] { MeshWorld(1); }),
                AllOf(HasSubstr("UNISONO_HOST_ADDR"), HasSubstr(wrong), HasSubstr("[CONFIG]")));
  }
}

/// Where this process listens.
std::vector<SocketAddress> listeningAt() {
  std::vector<SocketAddress> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
        SocketAddress::localOf(fd).isInternet()) {
      all.push_back(SocketAddress::localOf(fd));
    }
  }
  return all;
}

TEST(OwnAddressTest, NobodyListensWhereNoRankIsExpected) {
  if (::access("/proc/net/if_inet6", R_OK) != 0) {
    GTEST_SKIP() << "this host has no IPv6";
  }
  for (const char* where : {"127.0.0.1", "127.0.0.2", "::1"}) {
    const ScopedEnv address("UNISONO_HOST_ADDR", where);
    MeshWorld world(2);
    EXPECT_EQ(addressesIn(world), std::vector<std::string>{where});
  }
  std::vector<std::string> hosts;
  for (const SocketAddress& each : listeningAt()) {
    hosts.push_back(each.hostText());
  }
  EXPECT_THAT(hosts, UnorderedElementsAre("127.0.0.1", "127.0.0.2", "::1"));
}

TEST(AdvertiseTest, WhatIsNoAddressIsRefused) {
  for (const char* wrong : {"127.0.0.1:", "127.0.0.1:99999", "[::1:5", ":5", "0.0.0.0", "::"}) {
    const ScopedEnv advertised("UNISONO_ADVERTISE", wrong);
    EXPECT_THAT(textOf<UsageError>([] { MeshWorld(1); }),
                AllOf(HasSubstr("UNISONO_ADVERTISE"), HasSubstr("[CONFIG]")))
        << wrong;
  }
}

TEST(AdvertiseTest, WhatIsAnnouncedNeedsNoPort) {
  for (const auto& [text, address] :
       {std::pair("192.0.2.7", "192.0.2.7"), std::pair("2001:db8::1", "2001:db8::1"),
        std::pair("[2001:db8::1]", "2001:db8::1"), std::pair("localhost", "127.0.0.1")}) {
    const ScopedEnv advertised("UNISONO_ADVERTISE", text);
    MeshWorld world(1);
    const HostPort& self = world.mesh(0).roster().front().addresses.front();
    EXPECT_EQ(self.host, address);
    EXPECT_EQ(self.port, Harbour::instance().listenAt(SocketAddress::loopback(AF_INET, 0)));
  }
}

TEST(AdvertiseTest, APortIsAnnouncedToo) {
  for (const auto& [text, address] :
       {std::pair("192.0.2.7:5", "192.0.2.7"), std::pair("[2001:db8::1]:5", "2001:db8::1")}) {
    const ScopedEnv advertised("UNISONO_ADVERTISE", text);
    MeshWorld world(1);
    const HostPort& self = world.mesh(0).roster().front().addresses.front();
    EXPECT_EQ(self.host, address);
    EXPECT_EQ(self.port, 5);
  }
}

}  // namespace
}  // namespace unisono::mesh

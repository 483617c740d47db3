// Where a process tells others to connect to.
#include <gmock/gmock.h>

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
    const Member& self = world.mesh(0).roster().front();
    EXPECT_EQ(self.address, address);
    EXPECT_EQ(self.port, Harbour::instance().listenAt(SocketAddress::loopback(AF_INET, 0)));
  }
}

TEST(AdvertiseTest, APortIsAnnouncedToo) {
  for (const auto& [text, address] :
       {std::pair("192.0.2.7:5", "192.0.2.7"), std::pair("[2001:db8::1]:5", "2001:db8::1")}) {
    const ScopedEnv advertised("UNISONO_ADVERTISE", text);
    MeshWorld world(1);
    EXPECT_EQ(world.mesh(0).roster().front().address, address);
    EXPECT_EQ(world.mesh(0).roster().front().port, 5);
  }
}

}  // namespace
}  // namespace unisono::mesh

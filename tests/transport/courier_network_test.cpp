// Groups by TCP on a bad network: what still works, and how the rest ends.
#include <algorithm>
#include <gmock/gmock.h>

#include "store/expect.hpp"
#include "support/fault_proxy.hpp"
#include "support/support.hpp"
#include "transport/mesh_world.hpp"

namespace unisono::mesh {
namespace {

using test::FaultProxy;
using test::MeshWorld;
using test::operate;
using test::ScopedEnv;
using test::testCall;
using test::textOfThrown;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

// What a link sends before its first frame.
constexpr std::size_t kHandshake = 73 + 32;

/// Ranks that reach each other, all of them, through a proxy.
class ProxiedWorld {
 public:
  ProxiedWorld(int size, const FaultProxy::Toxics& toxics)
      : proxy_(Harbour::instance().listenAt(SocketAddress::loopback(AF_INET, 0)), toxics),
        advertised_("UNISONO_ADVERTISE", str("127.0.0.1:", proxy_.port())),
        world_(size) {}

  /// Two blocks go round; what each rank was told.
  std::vector<std::exception_ptr> shift(std::size_t bytes, Milliseconds timeout = 20s) {
    return world_.outcomes([&](Courier& comm) {
      const int next = (comm.rank() + 1) % comm.size();
      const int previous = (comm.rank() + comm.size() - 1) % comm.size();
      const std::vector<std::byte> mine(bytes, static_cast<std::byte>(comm.rank()));
      for (int turn = 0; turn < 2; ++turn) {
        std::vector<std::byte> theirs(bytes, std::byte{0xEE});
        operate(
            comm,
            [&] {
              comm.exchange({next, mine}, {.rank = previous, .block = theirs});
            },
            testCall(1, timeout));
        EXPECT_EQ(theirs, std::vector<std::byte>(bytes, static_cast<std::byte>(previous)));
      }
    });
  }
  int connections() const { return proxy_.connections(); }

 private:
  const FaultProxy proxy_;
  const ScopedEnv advertised_;
  MeshWorld world_;
};

TEST(CourierNetworkTest, ByteAfterByteIsAsGoodAsAllAtOnce) {
  ProxiedWorld world(3, {.toServer = {.slice = 1}, .toClient = {.slice = 1}});
  for (const auto& each : world.shift(3001)) {
    EXPECT_EQ(textOfThrown(each), "");
  }
  EXPECT_GE(world.connections(), 3);  // more where somebody was late, and asked how it was
}

TEST(CourierNetworkTest, ASlowNetworkIsWaitedFor) {
  ProxiedWorld world(3, {.toServer = {.latency = 10ms}, .toClient = {.latency = 10ms}});
  for (const auto& each : world.shift(400'000)) {
    EXPECT_EQ(textOfThrown(each), "");
  }
}

/// A fault, and what ranks may be told of it.
struct Trouble {
  std::string name;
  FaultProxy::Toxic toServer;
  std::vector<std::string> tokens;
};

std::ostream& operator<<(std::ostream& out, const Trouble& trouble) {
  return out << trouble.name;
}

class CourierTroubleTest : public ::testing::TestWithParam<Trouble> {};

TEST_P(CourierTroubleTest, IsToldToAll) {
  const ScopedEnv netDead("UNISONO_NET_DEAD_MS", "1000");
  ProxiedWorld world(3, {.toServer = GetParam().toServer});
  const TimePoint start = systemClock().now();
  for (const auto& each : world.shift(100'000)) {
    const std::string text = textOfThrown(each);
    const auto& tokens = GetParam().tokens;
    EXPECT_TRUE(std::any_of(tokens.begin(), tokens.end(), [&](const std::string& token) {
      return text.find(token) != std::string::npos;
    })) << text;
  }
  // Far less than the timeout of the operation.
  EXPECT_LT(elapsedSince(start), 15s);
}

using Then = FaultProxy::Then;
INSTANTIATE_TEST_SUITE_P(
    Troubles, CourierTroubleTest,
    ::testing::Values(
        Trouble{"ResetInABlock",
                {.after = kHandshake + 5000, .then = Then::RESET},
                {"[PEER_UNREACHABLE]"}},
        Trouble{"ClosedInABlock", {.after = kHandshake + 5000}, {"[PEER_UNREACHABLE]"}},
        Trouble{"ClosedInAHead", {.after = kHandshake + 20}, {"[PEER_UNREACHABLE]"}},
        Trouble{"HalfClosed",
                {.after = kHandshake + 5000, .then = Then::HALF_CLOSE},
                {"[PEER_UNREACHABLE]"}},
        Trouble{"NoKindOfFrame", {.corruptAt = kHandshake}, {"[PROTOCOL]"}},
        Trouble{"DataTakenForACause", {.corruptAt = kHandshake, .mask = 3}, {"[PROTOCOL]"}},
        Trouble{"DataTakenForAGoodbye", {.corruptAt = kHandshake, .mask = 2}, {"[PEER_LEFT]"}},
        Trouble{"AnotherSignature", {.corruptAt = kHandshake + 4}, {"[MISMATCH]"}},
        Trouble{"AnotherNumber", {.corruptAt = kHandshake + 8}, {"[MISMATCH]"}},
        Trouble{"Shorter", {.corruptAt = kHandshake + 17}, {"[MISMATCH]"}},
        Trouble{"FarTooLong", {.corruptAt = kHandshake + 23}, {"[MISMATCH]"}},
        Trouble{"AWrongProof",
                {.corruptAt = 80},
                {"[PEER_UNREACHABLE]", "[PEER_LEFT]", "[AUTH_FAILED]"}}),
    [](const auto& row) { return row.param.name; });

TEST(CourierNetworkTest, WhatIsSwallowedIsMissedWhenTimeIsOver) {
  ProxiedWorld world(2, {.toServer = {.after = kHandshake + 5000, .then = Then::SWALLOW}});
  for (const auto& each : world.shift(100'000, 1000ms)) {
    EXPECT_THAT(textOfThrown(each), HasSubstr("[TIMEOUT]"));
  }
}

}  // namespace
}  // namespace unisono::mesh

#include "launch/relay.hpp"

#include <gmock/gmock.h>
#include <string>

#include "net/connect.hpp"
#include "net/net_support.hpp"
#include "store/tcp/codec.hpp"
#include "store/tcp/dial.hpp"
#include "store/tcp/server.hpp"

namespace unisono::launch {
namespace {

using tcp::Query;
using tcp::RequestWriter;

const Key kKey = deriveKey("a secret of some length", "store");

class RelayTest : public testing::Test {
 protected:
  tcp::StoreServer store{{.host = "127.0.0.1", .key = kKey}, test::soon()};
  Relay relay{{"localhost", 0}, kKey, test::soon()};

  Socket connect() const {
    return connectTo("127.0.0.1", relay.port(), test::soon(), Milliseconds(20'000));
  }

  /// As PyTorch's clients begin.
  static void ask(Socket& client) {
    const std::string hello = RequestWriter().begin(Query::VALIDATE).u32(tcp::kMagic).bytes();
    const std::string ping = RequestWriter().begin(Query::PING).u32(7).bytes();
    EXPECT_TRUE(client.sendAll(hello + ping, test::soon()).isDone());
  }
  static std::string answer(Socket& client) {
    std::string bytes(4, '\xFF');
    EXPECT_TRUE(client.recvExact(bytes.data(), bytes.size(), test::soon()).isDone());
    return bytes;
  }
};

TEST_F(RelayTest, LetsStockClientsIntoAStoreWithASecret) {
  relay.leadTo(store.address());
  Socket client = connect();
  ask(client);

  EXPECT_EQ(answer(client), std::string("\7\0\0\0", 4));
}

TEST_F(RelayTest, LetsClientsWaitUntilTheStoreIsKnown) {
  Socket client = connect();
  ask(client);
  relay.leadTo(store.address());

  EXPECT_EQ(answer(client), std::string("\7\0\0\0", 4));
}

TEST_F(RelayTest, PassesOnThoseWhoProveTheSecretThemselves) {
  relay.leadTo(store.address());
  const tcp::Call call("connect", {}, Milliseconds(20'000));

  EXPECT_TRUE(tcp::dial({"127.0.0.1", relay.port()}, kKey, call)->native());
  EXPECT_THROW(tcp::dial({"127.0.0.1", relay.port()},
                         deriveKey("another one of that length", "store"), call),
               DistAuthError);
}

TEST_F(RelayTest, EndsConnectionsToAStoreThatIsReplaced) {
  relay.leadTo(store.address());
  Socket client = connect();
  ask(client);
  EXPECT_EQ(answer(client), std::string("\7\0\0\0", 4));
  const tcp::StoreServer next({.host = "127.0.0.1", .key = kKey}, test::soon());
  relay.leadTo(next.address());

  char byte = 0;
  EXPECT_NE(client.recvExact(&byte, 1, test::soon()).outcome, IoOutcome::TIMED_OUT);
  client = connect();
  ask(client);
  EXPECT_EQ(answer(client), std::string("\7\0\0\0", 4));
}

TEST_F(RelayTest, TellsClientsThatTheStoreIsGone) {
  const SocketAddress gone = tcp::StoreServer({.host = "127.0.0.1"}, test::soon()).address();
  relay.leadTo(gone);
  Socket client = connect();

  char byte = 0;
  EXPECT_NE(client.recvExact(&byte, 1, test::soon()).outcome, IoOutcome::TIMED_OUT);
}

TEST_F(RelayTest, ListensOnLoopbackOnly) {
  EXPECT_THROW(Relay({"0.0.0.0", 0}, kKey, test::soon()), DistNetworkError);
}

}  // namespace
}  // namespace unisono::launch

// A TCPStore whose bytes come one by one, in both directions.
#include <gmock/gmock.h>
#include <optional>
#include <thread>

#include "unisono/store/tcp_store.hpp"

#include "base/bytes.hpp"
#include "support/fault_proxy.hpp"

namespace unisono {
namespace {

using test::FaultProxy;
using test::StockServer;
using ::testing::ElementsAre;
using namespace std::chrono_literals;

enum class Server : std::uint8_t { UV, POLL, STOCK };

std::string nameOf(Server server) {
  return server == Server::UV ? "Uv" : server == Server::POLL ? "Poll" : "Stock";
}

Bytes bytes(std::string_view text) {
  return {text.begin(), text.end()};
}

class TcpStoreSlicedTest : public ::testing::TestWithParam<Server> {
 protected:
  TcpStoreSlicedTest() {
    if (GetParam() == Server::STOCK) {
      stock_.emplace();
    } else {
      own_.emplace(
          "127.0.0.1",
          TCPStoreOptions{
              .port = 0, .isServer = true, .timeout = 20s, .useLibUV = GetParam() == Server::UV});
    }
    const std::uint16_t port = stock_ ? stock_->port() : own_->port();
    proxy_.emplace(port, FaultProxy::Toxics{.toServer = {.slice = 1}, .toClient = {.slice = 1}});
  }
  TCPStore connect() const {
    return TCPStore("127.0.0.1", {.port = proxy_->port(), .timeout = 20s});
  }

 private:
  std::optional<TCPStore> own_;
  std::optional<StockServer> stock_;
  std::optional<FaultProxy> proxy_;
};

INSTANTIATE_TEST_SUITE_P(Servers, TcpStoreSlicedTest,
                         ::testing::Values(Server::UV, Server::POLL, Server::STOCK),
                         [](const auto& row) { return nameOf(row.param); });

TEST_P(TcpStoreSlicedTest, AnswersEveryCallAsEver) {
  TCPStore store = connect();
  std::string large(20'000, 'x');
  large[77] = '\0';
  store.set("large", bytes(large));
  EXPECT_EQ(store.get("large"), bytes(large));
  EXPECT_EQ(store.add("number", 40), 40);
  EXPECT_EQ(store.add("number", 2), 42);
  EXPECT_EQ(store.compareSet("swapped", bytes(""), bytes("one")), bytes("one"));
  EXPECT_EQ(store.compareSet("swapped", bytes("other"), bytes("two")), bytes("one"));
  store.append("joined", bytes("ab"));
  store.append("joined", bytes("c"));
  EXPECT_EQ(store.get("joined"), bytes("abc"));
  const std::vector<std::string> keys = {"first", "second"};
  store.multiSet(keys, std::vector<Bytes>{bytes("1"), bytes("")});
  EXPECT_THAT(store.multiGet(keys), ElementsAre(bytes("1"), bytes("")));
  EXPECT_TRUE(store.check(keys));
  EXPECT_TRUE(store.deleteKey("first"));
  EXPECT_FALSE(store.check(keys));
  store.queuePush("queue", bytes("front"));
  EXPECT_EQ(store.queueLen("queue"), 1);
  EXPECT_EQ(store.queuePop("queue"), bytes("front"));
}

TEST_P(TcpStoreSlicedTest, WakesWhoWaits) {
  TCPStore waits = connect();
  TCPStore sets = connect();
  std::thread other([&] { sets.set("key", bytes("value")); });
  EXPECT_EQ(waits.get("key"), bytes("value"));
  other.join();
}

}  // namespace
}  // namespace unisono

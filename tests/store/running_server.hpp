// RunningServer: one of the real servers, for tests that talk to it over real connections.
#pragma once

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "net/net_support.hpp"
#include "store/raw_client.hpp"
#include "store/tcp/server.hpp"

namespace unisono::tcp::test {

class RunningServer {
 protected:
  explicit RunningServer(bool useLibUv) : useLibUv_(useLibUv) {}
  ~RunningServer() = default;

  void start(const StoreLimits& limits = {}, const std::string& host = "127.0.0.1") {
    server = std::make_unique<StoreServer>(
        StoreServer::Options{.host = host, .useLibUv = useLibUv_, .limits = limits},
        ::unisono::test::soon());
  }
  /// A client that has said hello.
  RawClient connect(int bufferBytes = 0) {
    RawClient client(server->address(), bufferBytes);
    EXPECT_TRUE(client.connected() && client.hello());
    return client;
  }
  std::vector<RawClient> connectMany(std::size_t count) {
    std::vector<RawClient> clients(count);
    std::generate(clients.begin(), clients.end(), [this] { return connect(); });
    return clients;
  }

  std::unique_ptr<StoreServer> server;

 private:
  bool useLibUv_;
};

}  // namespace unisono::tcp::test

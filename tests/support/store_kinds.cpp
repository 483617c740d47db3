#include "support/store_kinds.hpp"

#include "unisono/store/file_store.hpp"
#include "unisono/store/hash_store.hpp"
#include "unisono/store/prefix_store.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/str.hpp"
#include "net/net_support.hpp"
#include "support/support.hpp"

namespace unisono::test {
namespace {

enum class Loop : bool { POLL, UV };

std::shared_ptr<TCPStore> server(Loop loop, std::optional<std::size_t> workers = std::nullopt) {
  return std::make_shared<TCPStore>(
      "127.0.0.1",
      TCPStoreOptions{
          .port = 0, .isServer = true, .numWorkers = workers, .useLibUV = loop == Loop::UV});
}

/// The server's own client; it counts itself as a worker, in one key.
MadeStore tcpServer(Loop loop) {
  return {nullptr, server(loop, 1)};
}

/// A second client, of a server that counts nobody.
MadeStore tcpClient(Loop loop, bool syncWrites = false) {
  auto owner = server(loop);
  auto client =
      std::make_shared<TCPStore>("127.0.0.1", TCPStoreOptions{.port = owner->port(),
                                                              .useLibUV = loop == Loop::UV,
                                                              .syncWrites = syncWrites});
  return {owner, client};
}

/// As made by processes that have the job's secret: all connections begin with a proof of it.
MadeStore withSecret(Loop loop) {
  const ScopedEnv secret("UNISONO_AUTH_SECRET", "a secret that both of them know");
  return tcpClient(loop);
}

MadeStore file() {
  auto folder = std::make_shared<TempDir>();
  return {folder, std::make_shared<FileStore>(folder->file("store"))};
}

MadeStore prefixed(MadeStore inner, const std::string& prefix) {
  inner.store = std::make_shared<PrefixStore>(prefix, inner.store);
  return inner;
}

}  // namespace

const std::vector<StoreKind>& storeKinds() {
  const auto hash = [] { return MadeStore{nullptr, std::make_shared<HashStore>()}; };
  const auto uvClient = [] { return tcpClient(Loop::UV); };
  static const auto* kinds = new std::vector<StoreKind>{
      {.name = "Hash", .make = hash, .cloneIsSelf = true, .keyPrefix = ""},
      {.name = "TcpUvServer", .make = [] { return tcpServer(Loop::UV); }, .ownKeys = 1},
      {.name = "TcpUvClient", .make = uvClient},
      {.name = "TcpUvSyncClient", .make = [] { return tcpClient(Loop::UV, true); }},
      {.name = "TcpPollServer", .make = [] { return tcpServer(Loop::POLL); }, .ownKeys = 1},
      {.name = "TcpPollClient", .make = [] { return tcpClient(Loop::POLL); }},
      {.name = "TcpUvSecret", .make = [] { return withSecret(Loop::UV); }},
      {.name = "TcpPollSecret", .make = [] { return withSecret(Loop::POLL); }},
      {.name = "File",
       .make = file,
       .ownKeys = 1,
       .hasQueues = false,
       .serverBarrier = false,
       .keyPrefix = ""},
      {.name = "PrefixHash",
       .make = [=] { return prefixed(hash(), "p"); },
       .cloneIsSelf = true,
       .serverBarrier = false,
       .keyPrefix = "p/"},
      {.name = "PrefixTcp",
       .make = [=] { return prefixed(uvClient(), "p"); },
       .serverBarrier = false,
       .keyPrefix = "/p/"},
      {.name = "PrefixFile",
       .make = [] { return prefixed(file(), "p"); },
       .ownKeys = 1,
       .hasQueues = false,
       .serverBarrier = false,
       .keyPrefix = "p/"},
      {.name = "NestedPrefix",
       .make = [=] { return prefixed(prefixed(prefixed(uvClient(), "c"), ""), "a/b"); },
       .serverBarrier = false,
       .keyPrefix = "/c//a/b/"},
  };
  return *kinds;
}

void StoreTest::awaitWaits(std::size_t count) const {
  const auto* prefix = dynamic_cast<const PrefixStore*>(&store);
  const StorePtr inner = prefix != nullptr ? prefix->underlyingNonPrefixStore() : made.store;
  if (auto* tcp = dynamic_cast<TCPStore*>(inner.get())) {
    const std::string wanted = str("\"waits\":", count, ",");
    ASSERT_TRUE(eventually([&] { return tcp->serverStats().find(wanted) != std::string::npos; }))
        << tcp->serverStats();
  }
}

}  // namespace unisono::test

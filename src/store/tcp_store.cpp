#include "unisono/store/tcp_store.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <utility>

#include "base/bytes.hpp"
#include "base/fork.hpp"
#include "base/gate.hpp"
#include "base/log.hpp"
#include "base/wait.hpp"
#include "store/common.hpp"
#include "store/tcp/client.hpp"
#include "store/tcp/entrance.hpp"
#include "store/tcp/server.hpp"

namespace unisono {
namespace {

constexpr std::size_t kMostWorkers = std::numeric_limits<std::int32_t>::max();

/// Whether an elastic agent already serves the store on this port, as torchrun's environment says.
bool agentServes(std::uint16_t port) {
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  const char* masterPort = std::getenv("MASTER_PORT");
  if (agent == nullptr || masterPort == nullptr || std::string_view(masterPort) != str(port)) {
    return false;
  }
  std::string word(agent);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return word == "y" || word == "yes" || word == "1" || word == "t" || word == "true";
}

void warnOfShortBacklog(std::size_t workers) {
  std::ifstream file("/proc/sys/net/core/somaxconn");
  std::size_t longest = 0;
  if (file >> longest && longest < workers) {
    UNISONO_LOG(WARN, "store", "the kernel queues at most ", longest, " connections, but ", workers,
                " workers may connect at once: raise net.core.somaxconn");
  }
}

std::shared_ptr<tcp::StoreServer> startServer(const std::string& host,
                                              const TCPStoreOptions& options,
                                              const std::optional<Key>& key, Deadline deadline) {
  const tcp::StoreServer::Options server{.host = host,
                                         .port = options.port,
                                         .listenFd = options.masterListenFd,
                                         .useLibUv = options.useLibUV,
                                         .limits = tcp::serverLimits(),
                                         .key = key};
  try {
    return options.multiTenant ? tcp::StoreServer::shared(server, deadline)
                               : std::make_shared<tcp::StoreServer>(server, deadline);
  } catch (const DistNetworkError& error) {
    if (!agentServes(options.port)) {
      throw;
    }
    UNISONO_LOG(INFO, "store", "using the agent's store on port ", options.port, ": ",
                error.what());
    return nullptr;
  }
}

void checkOptions(const std::string& host, const TCPStoreOptions& options) {
  UNISONO_CHECK(!host.empty() && host.find('\0') == std::string::npos,
                "TCPStore needs the name or address of the server's host, but got '", host, "'");
  UNISONO_CHECK(!options.numWorkers || *options.numWorkers > 0,
                "TCPStore world size cannot be 0; leave it out when the number of workers is not "
                "known");
  UNISONO_CHECK(!options.numWorkers || *options.numWorkers <= kMostWorkers, "TCPStore world size ",
                options.numWorkers.value_or(0),
                " cannot be right: is it a negative number that was converted?");
  UNISONO_CHECK(options.isServer || options.port != 0,
                "a TCPStore client needs the port of the server; 0 is for servers");
}

}  // namespace

struct TCPStore::Impl {
  std::string host;
  std::uint16_t port = 0;
  TCPStoreOptions options;
  std::shared_ptr<tcp::StoreServer> server;  // before the client: outlives it
  std::unique_ptr<tcp::StoreClient> client;
  ForkGuard madeIn;
  Gate gate;

  /// Counts this client in, and on the server waits for the others; errors call the time that
  /// there is until `deadline` the `timeout`.
  void awaitWorkers(Milliseconds timeout, Deadline deadline) const;
};

namespace {

/// Being inside a call: refused in a forked child and during destruction.
class Inside {
 public:
  template <typename Impl>
  explicit Inside(Impl& impl) : pass_((impl.madeIn.check("TCPStore"), impl.gate), "TCPStore") {}

 private:
  Gate::Pass pass_;
};

/// The key as the server knows it.
std::string wireKey(std::string_view key) {
  std::string wire;
  wire.reserve(key.size() + 1);
  wire += '/';
  wire += key;
  return wire;
}

std::vector<std::string> wireKeys(std::span<const std::string> keys) {
  std::vector<std::string> wire;
  wire.reserve(keys.size());
  for (const std::string& key : keys) {
    wire.push_back(wireKey(key));
  }
  return wire;
}

}  // namespace

TCPStore::TCPStore(std::string host, const TCPStoreOptions& options)
    : impl_(std::make_unique<Impl>()) {
  checkOptions(host, options);
  setTimeout(options.timeout.value_or(timeout()));
  const Milliseconds limit = timeout();
  const Deadline deadline = Deadline::after(limit);  // for all that follows together
  impl_->options = options;
  impl_->host = host;
  impl_->port = options.port;
  const std::optional<Key> key = tcp::storeKey();
  if (options.isServer) {
    impl_->server = startServer(host, options, key, deadline);
    if (options.numWorkers) {
      warnOfShortBacklog(*options.numWorkers);
    }
  }
  if (impl_->server) {
    impl_->port = impl_->server->port();
    host = impl_->server->address().hostText();
  }
  impl_->client = std::make_unique<tcp::StoreClient>(
      tcp::StoreClient::Options{
          .host = host, .port = impl_->port, .syncWrites = options.syncWrites, .key = key},
      limit, deadline);
  if (options.waitWorkers) {
    impl_->awaitWorkers(limit, deadline);
  }
}

TCPStore::TCPStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

TCPStore::~TCPStore() {
  if (impl_->madeIn.inChild()) {
    static_cast<void>(impl_.release());  // the parent's: its locks may have been held
    return;
  }
  impl_->gate.close();
  impl_->client->shutdown();
  impl_->gate.waitEmpty();
}

void TCPStore::waitForWorkers() {
  const Inside inside(*impl_);
  const Milliseconds limit = timeout();
  impl_->awaitWorkers(limit, Deadline::after(limit));
}

void TCPStore::Impl::awaitWorkers(Milliseconds timeout, Deadline deadline) const {
  if (!options.numWorkers) {
    return;
  }
  const std::string key(tcp::kWorkerCountKey);
  const auto wanted = static_cast<std::int64_t>(*options.numWorkers);
  std::int64_t joined = client->add(key, 1, deadline.remaining());
  if (!server) {
    return;
  }
  const TimePoint start = systemClock().now();
  const std::shared_ptr<Waitable> pause = server->counting(key, wanted);
  const WaitContext wait{.deadline = deadline, .subject = [&] {
                           return str(wanted - joined, " of ", wanted,
                                      " workers to join the store");
                         }};
  const auto complete = [&] {
    joined = joined < wanted ? client->add(key, 0, deadline.remaining()) : joined;
    return joined >= wanted;
  };
  if (!waitUntil(complete, wait, *pause)) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(timeout);
    throw DistStoreError(
        {.reason = Reason::TIMEOUT,
         .what = str("Timed out after ", seconds.count(), " seconds waiting for clients. ", joined,
                     "/", wanted, " clients joined."),
         .hint = "look at the processes that did not start or cannot connect",
         .op = "wait_for_workers",
         .host = str(host, ":", port),
         .elapsed = elapsedSince(start)});
  }
}

void TCPStore::set(std::string_view key, BytesView value) {
  const Inside inside(*impl_);
  impl_->client->set(wireKey(key), asText(value), timeout());
}

Bytes TCPStore::get(std::string_view key) {
  const Inside inside(*impl_);
  return impl_->client->get(wireKey(key), timeout());
}

Bytes TCPStore::compareSet(std::string_view key, BytesView expected, BytesView desired) {
  return trySwap(key, expected, desired).value;
}

Store::Swap TCPStore::trySwap(std::string_view key, BytesView expected, BytesView desired) {
  const Inside inside(*impl_);
  tcp::Swapped swapped =
      impl_->client->compareSet(wireKey(key), asText(expected), asText(desired), timeout());
  return {.value = std::move(swapped.value), .stored = swapped.stored};
}

std::int64_t TCPStore::add(std::string_view key, std::int64_t delta) {
  const Inside inside(*impl_);
  return impl_->client->add(wireKey(key), delta, timeout());
}

bool TCPStore::deleteKey(std::string_view key) {
  const Inside inside(*impl_);
  return impl_->client->remove(wireKey(key), timeout());
}

std::int64_t TCPStore::deletePrefix(std::string_view prefix) {
  const Inside inside(*impl_);
  return impl_->client->removePrefix(wireKey(prefix), timeout());
}

bool TCPStore::check(std::span<const std::string> keys) {
  const Inside inside(*impl_);
  return impl_->client->check(wireKeys(keys), timeout());
}

void TCPStore::wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) {
  const Inside inside(*impl_);
  impl_->client->wait(wireKeys(keys), checkedTimeout(timeout));
}

std::int64_t TCPStore::numKeys() {
  const Inside inside(*impl_);
  return impl_->client->numKeys(timeout());
}

std::vector<std::string> TCPStore::listKeys() {
  const Inside inside(*impl_);
  std::vector<std::string> keys;
  for (const std::string& key : impl_->client->listKeys(timeout())) {
    if (key.starts_with('/')) {
      keys.push_back(key.substr(1));
    }
  }
  return keys;
}

void TCPStore::append(std::string_view key, BytesView value) {
  const Inside inside(*impl_);
  impl_->client->append(wireKey(key), asText(value), timeout());
}

std::vector<Bytes> TCPStore::multiGet(std::span<const std::string> keys) {
  const Inside inside(*impl_);
  return impl_->client->multiGet(wireKeys(keys), timeout());
}

void TCPStore::multiSet(std::span<const std::string> keys, std::span<const Bytes> values) {
  const Inside inside(*impl_);
  checkSameSize(keys, values);
  impl_->client->multiSet(wireKeys(keys), values, timeout());
}

void TCPStore::queuePush(std::string_view key, BytesView value) {
  const Inside inside(*impl_);
  impl_->client->push(wireKey(key), asText(value), timeout());
}

Bytes TCPStore::queuePop(std::string_view key, bool block) {
  const Inside inside(*impl_);
  if (block) {
    return impl_->client->pop(wireKey(key), timeout());
  }
  std::optional<Bytes> element = impl_->client->tryPop(wireKey(key), timeout());
  if (!element) {
    throwQueueEmpty(key);
  }
  return *std::move(element);
}

std::int64_t TCPStore::queueLen(std::string_view key) {
  const Inside inside(*impl_);
  return impl_->client->queueLength(wireKey(key), timeout());
}

void TCPStore::barrier(std::string_view key, std::int64_t worldSize,
                       std::chrono::milliseconds timeout) {
  const Inside inside(*impl_);
  impl_->client->barrier(wireKey(key), worldSize, checkedTimeout(timeout));
}

std::shared_ptr<Store> TCPStore::clone() {
  const Inside inside(*impl_);
  auto twin = std::make_unique<Impl>();
  twin->client = impl_->client->twin(timeout());
  twin->host = impl_->server ? impl_->server->address().hostText() : host();
  twin->port = port();
  twin->options = {.port = port(),
                   .waitWorkers = false,
                   .timeout = timeout(),
                   .useLibUV = impl_->options.useLibUV,
                   .syncWrites = impl_->options.syncWrites};
  const std::shared_ptr<TCPStore> store(new TCPStore(std::move(twin)));
  store->setTimeout(timeout());
  return store;
}

const std::string& TCPStore::host() const noexcept {
  return impl_->host;
}

std::uint16_t TCPStore::port() const noexcept {
  return impl_->port;
}

bool TCPStore::isLibUvBackend() const noexcept {
  return impl_->options.useLibUV;
}

bool TCPStore::hasNativeServer() const noexcept {
  return impl_->client->traits().native;
}

std::string TCPStore::serverStats() {
  const Inside inside(*impl_);
  return impl_->client->stats(timeout());
}

std::string TCPStore::repr() const {
  const std::string server =
      impl_->server ? str("TCPServer(port=", impl_->server->port(), ")") : "<nullptr>";
  return str("TCPStore(client=TCPClient(", impl_->client->describeSocket(), "), server=", server,
             ")");
}

}  // namespace unisono

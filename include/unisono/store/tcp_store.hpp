// TCPStore: a store over TCP that speaks the wire format of PyTorch's TCPStore.
//
// One process runs the server, all (that one included) are clients:
//
//   TCPStore store("10.0.0.1", {.port = 29500, .isServer = rank == 0, .numWorkers = 4});
//
// Stock PyTorch clients may use this server, and this client may use PyTorch's servers. Between
// two of our own, calls take fewer round trips and refusals come with a text.
//
// The server listens only on the addresses that `host` stands for. Beyond loopback it needs a
// secret that clients prove to know (UNISONO_AUTH_SECRET_FILE), or UNISONO_ALLOW_UNAUTHENTICATED=1.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "unisono/store/store.hpp"

namespace unisono {

struct TCPStoreOptions {
  static constexpr std::uint16_t kDefaultPort = 29500;

  std::uint16_t port = kDefaultPort;  // 0 on a server: the kernel picks one, see port()
  bool isServer = false;
  std::optional<std::size_t> numWorkers = std::nullopt;  // how many clients belong to the job
  bool waitWorkers = true;  // the server's constructor waits for numWorkers clients
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;  // default: 300 s
  bool multiTenant = false;  // share a server of this process on the same port
  std::optional<int> masterListenFd = std::nullopt;  // a bound socket to listen on; taken over
  bool useLibUV = true;                              // which event loop serves; both behave alike
  bool syncWrites = false;  // set, append, … return only when the server has done it
};

/// Thread safety, timeouts and errors: as Store. A call that gave up because the server did
/// not answer may still have its effect later; its error says so.
class UNISONO_API TCPStore final : public Store {
 public:
  /// Starts or shares the server if asked to, connects, and waits for the workers; all of it has
  /// one timeout. Throws DistNetworkError when nobody can be reached or the port cannot be had,
  /// DistStoreError (TIMEOUT) when workers are missing. A server that was started is gone by then,
  /// and so is masterListenFd if it was listened on.
  explicit TCPStore(std::string host, const TCPStoreOptions& options = {});
  ~TCPStore() override;

  using Store::append;
  using Store::barrier;
  using Store::check;
  using Store::compareSet;
  using Store::queuePush;
  using Store::set;
  using Store::wait;

  void set(std::string_view key, BytesView value) override;
  Bytes get(std::string_view key) override;
  Bytes compareSet(std::string_view key, BytesView expected, BytesView desired) override;
  Swap trySwap(std::string_view key, BytesView expected, BytesView desired) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  bool deleteKey(std::string_view key) override;
  std::int64_t deletePrefix(std::string_view prefix) override;
  bool check(std::span<const std::string> keys) override;
  void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) override;
  std::int64_t numKeys() override;
  std::vector<std::string> listKeys() override;
  void append(std::string_view key, BytesView value) override;
  std::vector<Bytes> multiGet(std::span<const std::string> keys) override;
  void multiSet(std::span<const std::string> keys, std::span<const Bytes> values) override;
  void queuePush(std::string_view key, BytesView value) override;
  Bytes queuePop(std::string_view key, bool block = true) override;
  std::int64_t queueLen(std::string_view key) override;
  void barrier(std::string_view key, std::int64_t worldSize,
               std::chrono::milliseconds timeout) override;
  bool hasExtendedApi() const override { return true; }
  std::string serverHost() const override { return host(); }
  std::shared_ptr<Store> clone() override;

  /// Counts this client in and, on the server, waits until all numWorkers have been counted.
  void waitForWorkers();

  const std::string& host() const noexcept;
  std::uint16_t port() const noexcept;
  bool isLibUvBackend() const noexcept;

  /// True when the server is one of ours, so that the short forms of the protocol are used.
  bool hasNativeServer() const noexcept;

  /// What the server tells of itself, as JSON: keys, bytes, connections, requests by kind, limits
  /// (docs/wire/tcp_store.md). Empty when the server is not one of ours.
  std::string serverStats();

  /// As PyTorch prints it: TCPStore(client=TCPClient(…), server=TCPServer(port=29500)).
  std::string repr() const;

 private:
  struct Impl;
  explicit TCPStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace unisono

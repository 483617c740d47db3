// StoreServer: a StoreCore behind listening sockets, on a thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/thread.hpp"
#include "base/wait.hpp"
#include "net/address.hpp"
#include "net/secret.hpp"
#include "store/limits.hpp"

namespace unisono::tcp {

/// Thread safety: the members may be used from any thread. Destroying it closes all connections
/// and joins the thread, which never waits for anybody.
class StoreServer {
 public:
  struct Options {
    std::string host;
    std::uint16_t port = 0;
    // Taken over instead of opening one; stays the caller's when it cannot be listened on.
    std::optional<int> listenFd = std::nullopt;
    bool useLibUv = true;
    StoreLimits limits = {};
    // Only those who know it are served, but for the next; without one it listens beyond loopback
    // only if permitted.
    std::optional<Key> key = std::nullopt;
    // Whether clients that connect by loopback are served without a proof: PyTorch's have none.
    // UNISONO_STORE_ADMIT_LOCAL can forbid it.
    bool admitLocal = true;
  };

  /// Listens and serves. Throws DistNetworkError when it cannot listen (RESOURCE, CONFIG), also
  /// when it would listen beyond loopback without permission.
  explicit StoreServer(const Options& options, Deadline deadline);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// A server of this process on the port of `options` (not 0) that was started through here
  /// before, or a new one.
  static std::shared_ptr<StoreServer> shared(const Options& options, Deadline deadline);

  std::uint16_t port() const noexcept;
  bool useLibUv() const noexcept { return useLibUv_; }
  /// Where a client of this process reaches it.
  SocketAddress address() const noexcept;
  std::size_t connectionCount() const;
  /// Sleeps until the number at `key` is at least `least`. Not for longer than there is the server.
  std::shared_ptr<Waitable> counting(std::string key, std::int64_t least);

 private:
  class Loop;
  const bool useLibUv_;
  std::unique_ptr<Loop> loop_;
  Thread thread_;
  ForkGuard madeIn_;
};

/// The limits of this process: the defaults, the environment (UNISONO_STORE_…), and what
/// memory and descriptors allow. Throws UsageError (CONFIG) when settings contradict each other.
StoreLimits serverLimits();

}  // namespace unisono::tcp

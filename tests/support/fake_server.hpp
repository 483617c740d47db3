// Servers that are not ours: scripted ones, one that speaks only PyTorch's protocol, and a proxy
// that cuts connections.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "net/listener.hpp"
#include "net/socket.hpp"
#include "store/tcp/core.hpp"

namespace unisono::test {

/// Accepts connections on a port of 127.0.0.1 and runs `serve` for each, on a thread of its own.
class FakeServer {
 public:
  /// `number` counts the connections from 0. The socket is closed when `serve` returns.
  using Serve = std::function<void(Socket& socket, int number)>;

  explicit FakeServer(Serve serve);
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  std::uint16_t port() const { return listener_.port(); }
  int connections() const { return count_.load(); }
  bool stopping() const { return stop_.load(); }

  /// Ends all connections of this moment.
  void cutAll();

 private:
  void acceptLoop();

  const Serve serve_;
  const Listener listener_;
  std::atomic<bool> stop_{false};
  std::atomic<int> count_{0};
  std::mutex mutex_;
  std::list<Socket> open_;  // guarded by mutex_
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

/// Receives exactly `count` bytes; empty when the peer closed or nothing came for 20 s.
std::string receive(Socket& socket, std::size_t count);
void send(Socket& socket, std::string_view bytes);
/// Waits until the peer closes, throwing away what it sends.
void drain(Socket& socket);

/// A server that has nothing but PyTorch's protocol, and notes what it is asked.
class StockServer {
 public:
  /// What was asked, by name ("wait"), with "!" in front when it was a private form of ours.
  struct Seen {
    int connection;
    std::string query;
  };

  StockServer();
  std::uint16_t port() const { return server_.port(); }

  std::vector<Seen> seen() const;
  /// What one connection was asked, separated by blanks, after the handshake.
  std::string asked(int connection) const;
  int connections() const { return server_.connections(); }
  void cutAll() { server_.cutAll(); }

  /// From now on requests of this kind are not answered and not carried out.
  void ignore(tcp::Query query);
  /// From now on requests of this kind take so long.
  void takeLong(tcp::Query query, Milliseconds pause);

 private:
  void serve(Socket& socket, int number);
  void note(int number, std::string_view bytes, tcp::RequestParser& parser);
  void flush();
  void pauseBefore(tcp::Query query);

  mutable std::mutex mutex_;
  StoreLimits limits_;
  tcp::StoreCore core_;
  std::map<int, Socket*> sockets_;
  std::vector<Seen> seen_;
  std::optional<tcp::Query> ignored_;
  std::optional<tcp::Query> slow_;
  Milliseconds pause_{0};
  FakeServer server_;  // last: its threads use the rest
};

/// Passes bytes between its clients and a server, and cuts the first connection after a given
/// number of bytes, counted in one direction. Others are cut only when asked for.
class CuttingProxy {
 public:
  enum class Direction : std::uint8_t { TO_SERVER, TO_CLIENT };

  CuttingProxy(std::uint16_t serverPort, Direction direction, std::size_t cutAfter);
  explicit CuttingProxy(std::uint16_t serverPort)
      : CuttingProxy(serverPort, Direction::TO_SERVER, static_cast<std::size_t>(-1)) {}
  void cutAll() { server_.cutAll(); }
  std::uint16_t port() const { return server_.port(); }

  /// Bytes that passed on the first connection, up to now.
  std::size_t passed() const { return passed_.load(); }

 private:
  void serve(Socket& client, int number);

  const std::uint16_t serverPort_;
  const Direction direction_;
  const std::size_t cutAfter_;
  std::atomic<std::size_t> passed_{0};
  FakeServer server_;
};

}  // namespace unisono::test

// FaultProxy: a bad network between clients and a server of this host, for TCP.
//
//   FaultProxy proxy(server.port(), {.toServer = {.slice = 1}});
//   … connect to proxy.port() instead …
//
// What it does to bytes it counts anew for every connection, and for each direction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/clock.hpp"
#include "support/fake_server.hpp"

namespace unisono::test {

class FaultProxy {
 public:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

  /// What becomes of a connection.
  enum class Then : std::uint8_t {
    CLOSE,       // both ends see it end
    RESET,       // both ends are told that it broke
    HALF_CLOSE,  // this direction ends
    SWALLOW,     // all that follows in this direction is lost, and nobody is told
  };
  /// What is wrong with one direction.
  struct Toxic {
    std::size_t slice = kNever;  // longest piece that is passed on at once
    Milliseconds latency{0};     // before each piece
    std::size_t after = kNever;  // bytes, which still pass
    Then then = Then::CLOSE;
    std::size_t corruptAt = kNever;  // this byte, whose bits of `mask` are turned
    std::uint8_t mask = 0xFF;
  };
  struct Toxics {
    Toxic toServer = {};
    Toxic toClient = {};
    int from = 0;  // the connections before this one are spared
  };

  FaultProxy(std::uint16_t serverPort, const Toxics& toxics);
  std::uint16_t port() const { return server_.port(); }
  int connections() const { return server_.connections(); }

 private:
  class Pipe;
  void serve(Socket& client, int number) const;

  const std::uint16_t serverPort_;
  const Toxics toxics_;
  FakeServer server_;  // last: its threads use the rest
};

}  // namespace unisono::test

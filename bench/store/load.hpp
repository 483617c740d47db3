// Load: many clients of one server, driven by one thread.
//
// Every client sends `depth` requests in one piece, as far as the server takes them, and the next
// piece when the replies to all of them have come. The same code drives every kind of server, so
// that only they differ.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/error.hpp"

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "bench/histogram.hpp"
#include "bench/store/dialect.hpp"

namespace unisono::bench {

struct Target {
  std::string name;  // "redis", for messages
  Dialect dialect = Dialect::UNISONO;
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
};

struct LoadFigures {
  double opsPerSecond = 0;
  double p50Us = 0;
  double p99Us = 0;
};

class Load {
 public:
  /// Connects the clients; returns when the server has answered each of them. From then on, too, a
  /// server that answers nobody for `patience` is given up.
  Load(Target target, std::size_t clients, Milliseconds patience = Milliseconds(20'000));
  ~Load();
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  /// One exchange of the first client, not measured: for preparations.
  void once(const Exchange& what);

  LoadFigures run(const Exchange& what, std::size_t depth, Milliseconds duration);

 private:
  struct Client {
    UniqueFd fd;
    std::size_t bytesLeft = 0;  // of the replies to come
    std::size_t linesLeft = 0;
    std::size_t repliesLeft = 0;
    std::string_view unsent;  // of the requests
    TimePoint sentAt{};
  };
  /// What all clients of a run have in common.
  struct Run {
    const Exchange& what;
    std::size_t depth;
    std::string piece;  // `depth` requests
    TimePoint end;
    std::size_t busy = 0;  // clients that wait for replies
    Histogram times{};
  };

  void begin(std::size_t which, Run& run);
  bool sendMore(Client& client);
  void receive(std::size_t which, Run& run);
  bool isOver(Client& client, const Run& run, std::string_view bytes);
  void drive(Run& run, std::size_t clients);
  void watch(std::size_t which, int action, std::uint32_t events);
  [[noreturn]] void failed(std::string_view what, Reason reason = Reason::PEER_UNREACHABLE) const;

  const Target target_;
  const Milliseconds patience_;
  UniqueFd epoll_;
  std::vector<Client> clients_;
  std::vector<char> buffer_;
};

}  // namespace unisono::bench

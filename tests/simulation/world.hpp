// World: one server core and its clients on one thread, in simulated time, under seeded faults.
//
// Bytes travel in pieces of any size with any delay, but in order; connections are cut between any
// two of them, clients go away in the middle of a call and come back, the server stands still for a
// while. The same seed gives the same run. What must hold all the time:
//
//   - nobody waits for something that is there (no wake-up is lost);
//   - every call ends by its deadline, and a little for the way;
//   - what clients were told can be put in order (tests/linear);
//   - when all have gone, the server has forgotten them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "linear/history.hpp"
#include "simulation/agenda.hpp"
#include "simulation/client.hpp"
#include "store/tcp/core.hpp"

namespace unisono::simulation {

struct Settings {
  std::uint64_t seed = 1;
  int clients = 5;
  int callsEach = 40;
  const Fault* fault = nullptr;  // planted into the server
};

struct Report {
  std::string violation;    // empty when all is well
  std::uint64_t trace = 0;  // the same for the same run
  std::size_t calls = 0;
  std::size_t canceled = 0;
  std::size_t cuts = 0;
  std::size_t undecided = 0;  // whether the answers can be put in order
};

class World {
 public:
  explicit World(const Settings& settings);

  Report run();

  // For clients.
  Agenda& agenda() { return agenda_; }
  std::uint64_t below(std::uint64_t limit) { return rng_.next() % limit; }
  tcp::ConnectionId connect(Client& client);
  void send(tcp::ConnectionId id, std::string_view bytes);
  /// The client goes; what is under way to the server may still arrive, in part.
  void hangUp(tcp::ConnectionId id);
  void noteCanceled() { ++report_.canceled; }
  void violate(const std::string& what);

  // For planted faults: does something to the store behind everybody's back.
  void meddle(const tcp::RequestWriter& request);
  const KvTable& table() const { return core_.table(); }

 private:
  /// One direction of one connection.
  struct Way {
    Micros lastArrival = 0;
    std::uint64_t sent = 0;
    std::uint64_t arrived = 0;
  };
  struct Link {
    Client* client = nullptr;  // null once it has gone
    bool open = true;
    Way toServer;
    Way toClient;
    std::string inbox;  // arrived at the server, which has not taken it yet
  };

  void dispatch(Way& way, std::string_view bytes, std::function<void(std::string)> arrive);
  void arriveAtServer(tcp::ConnectionId id, const std::string& piece);
  void serve(tcp::ConnectionId id);
  void pump();
  void flush(tcp::ConnectionId id);
  void closeAtServer(tcp::ConnectionId id);
  void disturb();
  void checkWaits();
  void lookAround(linear::History& history);
  void checkForgotten();
  void trace(std::string_view what);
  Micros delay();

  const Settings settings_;
  SeededRng rng_;
  Agenda agenda_;
  tcp::StoreCore core_;
  tcp::ConnectionId lastId_ = 0;
  std::map<tcp::ConnectionId, Link> links_;
  std::vector<std::unique_ptr<Client>> clients_;
  Micros pausedUntil_ = 0;
  Report report_;
};

}  // namespace unisono::simulation

// World: one server core and its clients on one thread, in simulated time, under seeded faults.
//
// Bytes travel in pieces of any size with any delay, but in order; connections are cut between any
// two of them, clients go away in the middle of a call and come back, the server stands still for a
// while, or dies and another one takes its place, who knows nothing. The same seed gives the same
// run; in every fourth no client crashes, so that each of its calls has to end. What is about more
// than one or two keys is carried out in slices in two of three, and others' requests come between
// them. What must hold all the time:
//
//   - nobody waits for something that is there (no wake-up is lost); but of stock clients that wait
//     for one queue, one after the other is woken, and who waits for many keys may have to wait
//     until the server has looked at them all;
//   - every call ends by its deadline, and a little for the way, also when its server dies;
//   - what clients were told by one server can be put in order (tests/linear), beginning with
//     nothing;
//   - when all have gone, the server has forgotten them; and when all keys have, every name.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
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

/// The connection of those who meddle.
constexpr tcp::ConnectionId kGhost = 1'000'000;

struct Report {
  std::string violation;    // empty when all is well
  std::uint64_t trace = 0;  // the same for the same run
  std::size_t calls = 0;
  std::size_t canceled = 0;
  std::size_t cuts = 0;
  std::size_t pauses = 0;
  std::size_t deaths = 0;
  std::size_t lost = 0;       // calls whose server died
  std::size_t slices = 0;     // turns in which the server went on with requests about many keys
  std::size_t undecided = 0;  // whether the answers can be put in order
};

class World {
 public:
  explicit World(const Settings& settings);

  Report run();

  // For clients.
  Agenda& agenda() { return agenda_; }
  std::uint64_t below(std::uint64_t limit) { return rng_.next() % limit; }
  /// None while there is no server.
  std::optional<tcp::ConnectionId> connect(Client& client);
  /// The number of the server of now.
  int life() const { return life_; }
  void send(tcp::ConnectionId id, std::string_view bytes);
  /// The client goes; what is under way to the server may still arrive, in part.
  void hangUp(tcp::ConnectionId id);
  void noteCanceled() { ++report_.canceled; }
  void noteLost() { ++report_.lost; }
  void violate(const std::string& what);
  /// Whether the server puts off looking at the keys of `call`.
  bool beginsInSlices(const Call& call) const;
  /// What the server takes `call` for.
  Call understood(Call call);

  // For planted faults: does something to the store behind everybody's back.
  void meddle(const tcp::RequestWriter& request);
  const KvTable& table() const { return core_->table(); }

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
  void planWork();
  void work();
  void flush(tcp::ConnectionId id);
  void closeAtServer(tcp::ConnectionId id);
  void disturb();
  void pause();
  void goOn();
  void die();
  void restart();
  std::vector<tcp::ConnectionId> connections() const;

  // What must hold (world_checks.cpp).
  void checkWaits();
  void checkWork();
  bool isThere(const Call& call) const;
  void checkTurns(const std::map<std::string, std::set<const Client*>>& waiting);
  void lookAround();
  void checkForgotten();
  void checkCleared();
  void checkAnswers();
  void trace(std::string_view what);
  Micros delay();

  const Settings settings_;
  SeededRng rng_;
  const bool clientsCrash_;  // whoever never crashes has to see each of its calls end
  const StoreLimits limits_;
  Agenda agenda_;
  std::unique_ptr<tcp::StoreCore> core_;
  bool isUp_ = true;
  int life_ = 0;
  tcp::ConnectionId lastId_ = 0;
  std::map<tcp::ConnectionId, Link> links_;
  std::vector<std::unique_ptr<Client>> clients_;
  Micros pausedUntil_ = 0;
  bool workPlanned_ = false;
  std::optional<Micros> workSince_;  // since when the server has had something to go on with
  /// Stock clients that wait for a queue that holds something, and since when they are the same.
  struct Turn {
    std::set<const Client*> who;
    Micros since = 0;
  };
  std::map<std::string, Turn> turns_;
  std::map<int, linear::History> looks_;  // what was in each server at its end
  Report report_;
};

}  // namespace unisono::simulation

// Client: one user of the store in the simulation, making one call after the other.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "linear/history.hpp"
#include "simulation/agenda.hpp"
#include "simulation/wire.hpp"
#include "store/tcp/session.hpp"

namespace unisono::simulation {

class World;

/// Something that is wrong with a server, for a test of the tests. Either may be empty.
struct Fault {
  std::string name;
  /// The request of `call` has been carried out.
  std::function<void(World&, const Call&)> afterRequest;
  /// A reply to `call` is on its way; false keeps it.
  std::function<bool(World&, const Call&, std::string* bytes)> onReply;
};

class Client {
 public:
  Client(World& world, int number, int calls);

  void start();
  void receive(std::string_view bytes);
  void disconnected();
  /// Goes away in the middle of whatever it does, and comes back later.
  void crash();

  bool finished() const { return state_ == State::DONE; }
  const linear::History& history() const { return history_; }
  tcp::ConnectionId connection() const { return connection_; }

  /// The call it waits for, when the server has the whole request and has not begun to answer.
  const Call* waitingCall(std::uint64_t arrivedAtServer, std::uint64_t sentByServer) const;
  const Call* currentCall() const { return call_ ? &*call_ : nullptr; }
  std::uint64_t requestEnd() const { return sent_; }

 private:
  enum class State : std::uint8_t { AWAY, GREETING, IDLE, CALLING, CANCELING, DONE };

  void connect();
  void think();
  void beginCall();
  Call plan();
  void send(const tcp::RequestWriter& request);
  void cancel(std::uint64_t number);
  void checkDeadline(std::uint64_t number);
  void read();
  bool readReply();
  void finish(bool known);
  std::string key(const char* kind, std::uint64_t count);

  World& world_;
  const int number_;
  int callsLeft_;
  State state_ = State::AWAY;
  tcp::ConnectionId connection_ = 0;
  std::optional<Call> call_;
  std::uint64_t callNumber_ = 0;
  std::uint64_t sent_ = 0;      // bytes on this connection
  std::uint64_t consumed_ = 0;  // bytes of replies, on this connection
  std::string in_;
  linear::History history_;
  std::vector<std::size_t> unsettled_;  // stock writes without a reply after them
  int values_ = 0;
};

}  // namespace unisono::simulation

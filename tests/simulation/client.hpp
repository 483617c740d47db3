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

/// Something that is wrong with a server, for a test of the tests. All but one may be empty.
struct Fault {
  std::string name;
  /// A client asks; the server takes it for what this makes of `call`.
  std::function<void(World&, Call* call)> onRequest = {};
  /// The request of `call` has been carried out.
  std::function<void(World&, const Call&)> afterRequest = {};
  /// A reply to `call` is on its way; false keeps it.
  std::function<bool(World&, const Call&, std::string* bytes)> onReply = {};
  /// The server has stood still, and goes on with what has arrived on a connection.
  std::function<void(World&, std::string* bytes)> afterPause = {};
  /// The server is to go on with requests about many keys; false when it forgets to.
  std::function<bool(World&)> onWork = {};
  /// The server has died; false keeps it from a client.
  std::function<bool(World&)> onDeath = {};
  /// Another server has taken its place.
  std::function<void(World&)> afterRestart = {};
};

class Client {
 public:
  Client(World& world, int number, int calls);

  void start();
  void receive(std::string_view bytes);
  void disconnected();
  /// The server has died, and with it what it was asked and had not answered.
  void serverDied();
  /// Goes away in the middle of whatever it does, and comes back later.
  void crash();

  bool finished() const { return state_ == State::DONE; }
  /// What it was told, by the servers that told it.
  const std::map<int, linear::History>& histories() const { return histories_; }
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
  void finish(bool canceled);
  void continueCall();
  void ask();
  void loseCall();
  void comeBack();
  std::vector<std::string> keysFor(const Kind& kind);
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
  std::map<int, linear::History> histories_;
  linear::History* history_ = nullptr;  // with the server of now
  std::vector<std::size_t> unsettled_;  // stock writes without a reply after them
  int values_ = 0;
};

}  // namespace unisono::simulation

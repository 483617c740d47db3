#include "store/tcp/dial.hpp"

#include <algorithm>
#include <array>
#include <unistd.h>
#include <utility>

#include "base/bytes.hpp"
#include "base/random.hpp"
#include "base/str.hpp"
#include "net/connect.hpp"
#include "net/handshake.hpp"
#include "net/retry.hpp"
#include "store/common.hpp"

namespace unisono::tcp {
namespace {

// How long a server that nobody knows yet may leave greetings unanswered before it counts as one
// that does not understand them, and how often: one that is overloaded may also be silent, or close
// connections, but not always.
constexpr Milliseconds kGreetingTime(2000);
constexpr int kDoubts = 6;
constexpr int kDoubtsOfSilence = 3;

constexpr std::string_view kAskForSecret =
    "Or does it serve only those who know a secret (UNISONO_AUTH_SECRET_FILE)?";

/// A server that does not prove that it knows the key.
[[noreturn]] void refuseServer(const HostPort& target, std::string_view what) {
  throw DistAuthError({.reason = Reason::AUTH_FAILED,
                       .what = str("the store server at ", target.text(), " ", what),
                       .hint = "give it and all processes of the job the same secret, with "
                               "UNISONO_AUTH_SECRET_FILE or UNISONO_AUTH_SECRET",
                       .op = "connect",
                       .host = target.text()});
}

/// The server did not answer a greeting: it closed the connection, or said nothing.
struct Unanswered {
  std::string_view how;
  int doubts;
};

std::string readChallenge(Connection& connection, const HostPort& target, Milliseconds patience,
                          const Call& call) {
  Call soon = call;
  soon.deadline = call.deadline.within(patience);
  try {
    std::string challenge = connection.bytes(1, soon);
    if (challenge.front() != kHelloByte) {
      refuseServer(target, "does not speak unisono authentication");
    }
    return challenge + connection.bytes(kChallengeSize - 1, soon);
  } catch (const DistNetworkError& error) {
    if (error.reason() != Reason::STORE_LOST) {
      throw;
    }
    throw Unanswered{.how = "it closed the connection", .doubts = 1};
  } catch (const DistStoreError&) {
    if (call.deadline.expired()) {
      throw;  // it had no time to
    }
    throw Unanswered{.how = "it said nothing", .doubts = kDoubtsOfSilence};
  }
}

/// Greets, and returns the proof that the server then wants; throws Unanswered, and DistAuthError
/// when the server cannot prove itself.
std::string greetWithKey(Connection& connection, const HostPort& target, const Key& key,
                         Milliseconds patience, const Call& call) {
  const std::string noJob(kHandshakeIdSize, '\0');
  const HandshakeConnector connector(key, noJob, "");
  connection.send(connector.hello(), call);
  const std::optional<std::string> proof =
      connector.prove(readChallenge(connection, target, patience, call));
  if (!proof) {
    refuseServer(target, "has another secret than this process");
  }
  return *proof;
}

/// `opening` and an echo in one piece: a server that sees a hello cut in two may close the
/// connection (PyTorch's does), and a small piece is never cut.
void sayHello(Connection& connection, std::string_view opening, bool awaitWelcome,
              const Call& call) {
  const auto nonce = static_cast<std::uint32_t>(::getpid());
  connection.send(str(opening, RequestWriter().begin(Query::PING).u32(nonce).bytes()), call);
  if (awaitWelcome && connection.byte(call) != static_cast<std::uint8_t>(kWelcome)) {
    throw DistNetworkError({.reason = Reason::PROTOCOL,
                            .what = "the server answered the proof of the secret with nonsense",
                            .hint = "check that the address is that of a unisono store"});
  }
  const std::uint32_t echo = connection.u32(call);
  if (echo != nonce) {
    throw DistNetworkError(
        {.reason = Reason::PROTOCOL,
         .what = str("Ping failed, invalid value returned from server. Expected: ", nonce,
                     ", Got: ", echo),
         .hint = "check that the address is that of a TCPStore server"});
  }
}

/// What a server of ours says of itself; it is not native when the record is not understood.
ServerTraits readCapabilities(std::string_view record) {
  ByteReader reader(record);
  const auto version = reader.number<std::uint32_t>();
  const auto features = reader.number<std::uint64_t>();
  ServerTraits traits;
  StoreLimits& limits = traits.limits;
  const std::array fields = {&limits.keyBytes, &limits.valueBytes, &limits.keysPerCommand,
                             &limits.commandBytes};
  for (std::uint64_t* field : fields) {
    const auto value = reader.number<std::uint64_t>();
    if (!value) {
      return {};
    }
    *field = *value;
  }
  traits.native = version && *version >= kCapabilityVersion && (*features & kFeatureAnswered) != 0;
  traits.listing = traits.native && (*features & kFeatureListing) != 0;
  return traits.native ? traits : ServerTraits{};
}

/// Asks in a way that any server understands: only ours has the key.
void findCapabilities(Connection& connection, const Call& call) {
  const std::array<std::string, 1> probe = {std::string(kCapabilityKey)};
  connection.send(RequestWriter().begin(Query::CHECK).keys(probe).bytes(), call);
  if (connection.byte(call) != kReady) {
    return;
  }
  connection.send(RequestWriter().begin(Query::GET).blob(kCapabilityKey).bytes(), call);
  const Milliseconds roundTrip = connection.traits.roundTrip;
  connection.traits = readCapabilities(connection.blob(call));
  connection.traits.roundTrip = roundTrip;
}

/// Greets whoever takes the connection, until one turns out to be the store.
class Greeter {
 public:
  /// A greeting may be left unanswered for as long as `patience`.
  Greeter(const std::optional<Key>& key, Milliseconds patience, ConnectHistory& history)
      : target_(history.target()), key_(key), patience_(patience), history_(history) {}

  /// The connection when the peer turned out to be a store; otherwise notes why not.
  std::unique_ptr<Connection> greet(Socket socket, const Call& call);

  /// Throws DistAuthError when the last greeting with a key was not answered.
  void giveUp() const;

 private:
  bool introduce(Connection& connection, const SocketAddress& peer, const Call& call);

  const HostPort& target_;
  const std::optional<Key>& key_;
  const Milliseconds patience_;
  ConnectHistory& history_;
  int doubts_ = 0;        // since a greeting was last answered
  TimePoint doubtful_{};  // when that began
  std::string_view how_;
};

void Greeter::giveUp() const {
  if (doubts_ > 0) {
    refuseServer(target_, str("does not speak unisono authentication, or has no secret while this "
                              "process has one: when greeted, ",
                              how_));
  }
}

/// False when the peer is not the store, or not yet; why is noted.
bool Greeter::introduce(Connection& connection, const SocketAddress& peer, const Call& call) {
  const TimePoint start = systemClock().now();
  try {
    const std::string opening = key_ ? greetWithKey(connection, target_, *key_, patience_, call)
                                     : RequestWriter().begin(Query::VALIDATE).u32(kMagic).bytes();
    doubts_ = 0;
    sayHello(connection, opening, key_.has_value(), call);
    return true;
  } catch (const Unanswered& unanswered) {
    history_.addFailure(peer, str("when greeted, ", unanswered.how));
    how_ = unanswered.how;
    doubtful_ = doubts_ == 0 ? start : doubtful_;
    doubts_ += unanswered.doubts;
    if (doubts_ >= kDoubts && elapsedSince(doubtful_) >= kGreetingTime) {
      giveUp();
    }
  } catch (const DistAuthError&) {
    throw;
  } catch (const DistError& error) {
    if (error.reason() == Reason::SHUTDOWN) {
      throw;
    }
    const std::string& what = error.facts().what;
    const bool closed = !key_ && error.reason() == Reason::STORE_LOST;
    history_.addFailure(peer,
                        closed ? str(what, what.ends_with('?') ? " " : ". ", kAskForSecret) : what);
  }
  return false;
}

std::unique_ptr<Connection> Greeter::greet(Socket socket, const Call& call) {
  const SocketAddress peer = socket.peerAddress();
  auto connection = std::make_unique<Connection>(std::move(socket), target_.text());
  connection->traits.roundTrip = connection->socket().roundTrip();
  if (!introduce(*connection, peer, call)) {
    return nullptr;
  }
  try {
    findCapabilities(*connection, call);
  } catch (const DistNetworkError&) {
    // It said hello and then closed: the next call will tell.
    return connection;
  } catch (const DistStoreError& error) {
    history_.addFailure(peer, error.facts().what);
    return nullptr;
  }
  return connection;
}

/// Connects until a peer has shown that it is a store; null when the time is over. `onRefused`
/// may throw when nobody listens.
std::unique_ptr<Connection> connectTo(Greeter& greeter, const Call& call, ConnectHistory& history,
                                      void (*onRefused)(const Call&)) {
  const HostPort& target = history.target();
  Call limited = call;
  limited.deadline = call.timeout.count() == 0 ? call.deadline : call.until;
  const WaitContext wait{.deadline = limited.deadline, .subject = [&] {
                           return str("the store at ", target.text(), ": ", history.describe());
                         }};
  SeededRng rng(randomSeed());
  Backoff backoff(kDialPauses, rng);
  std::unique_ptr<Connection> connection;
  const auto attempt = [&] {
    ConnectRound round = tryConnectOnce(history, limited.deadline);
    if (round.socket.valid()) {
      connection = greeter.greet(std::move(round.socket), limited);
    } else if (!round.worthRetrying) {
      throw history.failedForGood();
    } else if (round.refused) {
      onRefused(call);
    }
    return connection != nullptr || call.timeout.count() == 0;
  };
  static_cast<void>(retryUntil(attempt, wait, backoff));
  return connection;
}

}  // namespace

std::unique_ptr<Connection> dial(const HostPort& target, const std::optional<Key>& key,
                                 const Call& call) {
  ConnectHistory history(target, call.timeout);
  Greeter greeter(key, kGreetingTime, history);
  std::unique_ptr<Connection> connection =
      connectTo(greeter, call, history, [](const Call&) { /* it may not be up yet */ });
  if (!connection) {
    greeter.giveUp();
    throw history.timedOut();
  }
  return connection;
}

std::unique_ptr<Connection> redial(const HostPort& target, const std::optional<Key>& key,
                                   const Call& call) {
  ConnectHistory history(target, call.timeout);
  Greeter greeter(key, call.timeout, history);  // it has been there: it may be stopped for a while
  std::unique_ptr<Connection> connection =
      connectTo(greeter, call, history, [](const Call& refused) {
        throw DistNetworkError(
            {.reason = Reason::STORE_LOST,
             .what = str("lost the store during ", refused.op,
                         ": nobody listens on its port any more. Did the remote server shutdown "
                         "or crash?"),
             .hint = "look at the process that runs the server",
             .op = std::string(refused.op)});
      });
  if (!connection) {
    throwWaitTimeout(call.op, call.keys, call.timeout,
                     str("The server does not answer: ", history.describe()), target.text());
  }
  return connection;
}

}  // namespace unisono::tcp

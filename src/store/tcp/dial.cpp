#include "store/tcp/dial.hpp"

#include <algorithm>
#include <array>
#include <unistd.h>
#include <utility>

#include "base/bytes.hpp"
#include "base/random.hpp"
#include "base/str.hpp"
#include "net/connect.hpp"
#include "net/retry.hpp"
#include "store/common.hpp"

namespace unisono::tcp {
namespace {

/// Hello and echo in one piece: a server that sees a hello cut in two may close the connection
/// (PyTorch's does), and a small piece is never cut.
void sayHello(Connection& connection, const Call& call) {
  const auto nonce = static_cast<std::uint32_t>(::getpid());
  connection.send(
      RequestWriter().begin(Query::VALIDATE).u32(kMagic).begin(Query::PING).u32(nonce).bytes(),
      call);
  const std::uint32_t echo = connection.u32(call);
  if (echo != nonce) {
    throw DistNetworkError(
        {.reason = Reason::PROTOCOL,
         .what = str("Ping failed, invalid value returned from server. Expected: ", nonce,
                     ", Got: ", echo, "; is a TCPStore server listening there?")});
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

/// The connection when the peer turned out to be a store; otherwise notes why not.
std::unique_ptr<Connection> greet(Socket socket, const HostPort& target, const Call& call,
                                  ConnectHistory& history) {
  const SocketAddress peer = socket.peerAddress();
  auto connection = std::make_unique<Connection>(std::move(socket), target.text());
  connection->traits.roundTrip = connection->socket().roundTrip();
  try {
    sayHello(*connection, call);
  } catch (const DistError& error) {
    if (error.reason() == Reason::SHUTDOWN) {
      throw;
    }
    history.addFailure(peer, error.facts().what);
    return nullptr;
  }
  try {
    findCapabilities(*connection, call);
  } catch (const DistNetworkError&) {
    // It said hello and then closed: the next call will tell.
    return connection;
  } catch (const DistStoreError& error) {
    history.addFailure(peer, error.facts().what);
    return nullptr;
  }
  return connection;
}

/// Connects until a peer has shown that it is a store; null when the time is over. `onRefused`
/// may throw when nobody listens.
std::unique_ptr<Connection> connectTo(const HostPort& target, const Call& call,
                                      ConnectHistory& history, void (*onRefused)(const Call&)) {
  Call limited = call;
  limited.deadline = call.timeout.count() == 0 ? call.deadline : call.until;
  const WaitContext wait{.deadline = limited.deadline, .subject = [&] {
                           return str("the store at ", target.text(), ": ", history.describe());
                         }};
  SeededRng rng(randomSeed());
  Backoff backoff(rng);
  std::unique_ptr<Connection> connection;
  const auto attempt = [&] {
    ConnectRound round = tryConnectOnce(history, limited.deadline);
    if (round.socket.valid()) {
      connection = greet(std::move(round.socket), target, limited, history);
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

std::unique_ptr<Connection> dial(const std::string& host, std::uint16_t port, const Call& call) {
  const HostPort target{host, port};
  ConnectHistory history(target, call.timeout);
  std::unique_ptr<Connection> connection =
      connectTo(target, call, history, [](const Call&) { /* it may not be up yet */ });
  if (!connection) {
    throw history.timedOut();
  }
  return connection;
}

std::unique_ptr<Connection> redial(const std::string& host, std::uint16_t port, const Call& call) {
  const HostPort target{host, port};
  ConnectHistory history(target, call.timeout);
  std::unique_ptr<Connection> connection =
      connectTo(target, call, history, [](const Call& refused) {
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

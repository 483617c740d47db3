// How a rank connects to another, and what it makes of one that it does not reach.
#include <algorithm>
#include <cerrno>
#include <sys/socket.h>
#include <utility>

#include "base/bytes.hpp"
#include "base/random.hpp"
#include "base/str.hpp"
#include "net/connect.hpp"
#include "net/handshake.hpp"
#include "net/retry.hpp"
#include "transport/mesh/mesh.hpp"

namespace unisono::mesh {
namespace {

// One attempt: a harbour answers at once, whatever its process does.
constexpr Milliseconds kAttempt(2000);
// A process that ends closes its connections before its harbour, or after.
constexpr Milliseconds kEnding(1000);
// Between two looks whether the process that shall answer has crashed.
constexpr Milliseconds kProcessLook(100);
constexpr std::string_view kNeeded = "has left the group, and is still needed";
constexpr std::size_t kLongestReport = 2 * kLongestCause;

}  // namespace

Mesh::Reached::How Mesh::Reached::after(const IoResult& result) noexcept {
  if (result.outcome == IoOutcome::TIMED_OUT) {
    return How::STALLED;
  }
  const bool isEnd =
      result.outcome != IoOutcome::FAILED || result.error == ECONNRESET || result.error == EPIPE;
  return isEnd ? How::CLOSED : How::UNREACHED;  // the network has failed, not the other
}

Mesh::Reached Mesh::tryToReach(int peer, Purpose purpose, Deadline deadline) const {
  using How = Reached::How;
  const Member& member = roster_[static_cast<std::size_t>(peer)];
  std::vector<SocketAddress> addresses;
  for (const HostPort& each : member.addresses) {
    if (const auto address = SocketAddress::parse(each.host, each.port)) {
      addresses.push_back(*address);
    }
  }
  if (addresses.empty()) {
    return {.why = "its card has no address that means something here"};
  }
  ConnectHistory history(member.addresses.front(), kAttempt);
  const Deadline end = deadline.within(kAttempt);
  ConnectRound round = detail::raceOnce(history, addresses, end);
  if (!round.socket.valid()) {
    return {.how = round.refused ? How::REFUSED : How::UNREACHED, .why = history.describe()};
  }
  Socket& socket = round.socket;
  const std::string where = SocketAddress::peerOf(socket.fd()).text();
  const Note note{.from = static_cast<std::uint32_t>(rank()),
                  .to = static_cast<std::uint32_t>(peer),
                  .purpose = purpose};
  const HandshakeConnector handshake(key_, id_, note.encode());
  std::string challenge(kChallengeSize, '\0');
  IoResult result = socket.sendAll(handshake.hello(), end);
  result = result.isDone() ? hear(socket, peer, challenge, end) : result;
  if (!result.isDone()) {
    return {.how = Reached::after(result), .why = str(where, ": ", result.text())};
  }
  const auto proof = handshake.prove(challenge);
  if (!proof) {
    return {.how = How::NOT_PROVEN};
  }
  char answer = 0;
  result = socket.sendAll(*proof, end);
  result = result.isDone() ? hear(socket, peer, {&answer, 1}, end) : result;
  if (!result.isDone()) {
    return {.how = Reached::after(result), .why = str(where, ": ", result.text())};
  }
  if (answer == kWelcome && purpose != Purpose::ASK) {
    return {.how = How::CONNECTED, .socket = std::move(socket)};
  }
  auto report = receiveReport(socket, end);
  return {.how = report ? How::ANSWERED : How::CLOSED, .report = std::move(report)};
}

/// All of `into`, unless the process of rank `peer` is seen to dump core: it will not answer.
IoResult Mesh::hear(Socket& socket, int peer, std::span<char> into, Deadline deadline) const {
  for (;;) {  // ends with the deadline
    const IoResult result =
        socket.recvExact(into.data(), into.size(), deadline.within(kProcessLook));
    into = into.subspan(result.isDone() ? into.size() : result.bytes);
    if (result.outcome != IoOutcome::TIMED_OUT || deadline.expired() || isDumpingCore(peer)) {
      return result;
    }
  }
}

std::optional<Report> Mesh::receiveReport(Socket& socket, Deadline deadline) {
  std::string size(sizeof(std::uint64_t), '\0');
  if (!socket.recvExact(size.data(), size.size(), deadline).isDone()) {
    return std::nullopt;
  }
  const std::uint64_t length = ByteReader(size).number<std::uint64_t>().value_or(0);
  std::string bytes(std::min<std::uint64_t>(length, kLongestReport), '\0');
  if (length > kLongestReport || !socket.recvExact(bytes.data(), bytes.size(), deadline).isDone()) {
    return std::nullopt;
  }
  return Report::decode(bytes);
}

/// Attempts until `enough` of one; what the last has come to. Throws Lost when the group has
/// failed.
Mesh::Reached Mesh::reachUntil(int peer, Purpose purpose, Deadline deadline, const Told& told,
                               const std::function<bool(const Reached&)>& enough) const {
  Reached reached;
  SeededRng rng(randomSeed());
  Backoff backoff(rng);
  const WaitContext context{.deadline = deadline, .subject = [&] {
                              return str("a connection to ", nameOf(peer), " of group '", group(),
                                         "'");
                            }};
  static_cast<void>(retryUntil(
      [&] {
        // Others may have found out already, and told so.
        if (const auto known = hasFailed() ? cause() : told()) {
          throw Lost{*known};
        }
        if (isDumpingCore(peer)) {  // its port is open until it is done
          throw Lost{gone(peer, Reason::PEER_DEAD, "has crashed and is dumping core")};
        }
        reached = tryToReach(peer, purpose, deadline);
        return enough(reached);
      },
      context, backoff));
  return reached;
}

Socket Mesh::reach(int peer, Purpose purpose, Deadline deadline, const Told& told) const {
  using How = Reached::How;
  // A process that is stopped is waited for as long as the operation may take: it is not lost.
  const Deadline patience = Deadline::after(std::max(streamOptions_.netDead, kEnding));
  Reached reached = reachUntil(peer, purpose, deadline, told, [&](const Reached& each) {
    const bool isLost = each.how == How::UNREACHED || each.how == How::CLOSED;
    return isLost ? patience.expired() : each.how != How::STALLED || purpose == Purpose::WATCH;
  });
  if (reached.how == How::CONNECTED) {
    return std::move(reached.socket);
  }
  if (reached.how == How::STALLED && purpose == Purpose::WATCH) {
    return {};
  }
  if (reached.how == How::STALLED) {
    throw Lost{gone(peer, Reason::TIMEOUT,
                    "does not answer: its process is stopped, or its host has too much to do")};
  }
  // Meanwhile it may have ended because the group has failed, and said so before.
  throw Lost{told().value_or(causeOf(peer, reached))};
}

std::optional<Report> Mesh::ask(int peer, Deadline deadline) const {
  return tryToReach(peer, Purpose::ASK, deadline).report;
}

AbortCause Mesh::whyLost(int peer) {
  using How = Reached::How;
  if (auto cause = toldCause()) {
    return *cause;
  }
  for (const auto& link : all_) {
    if (link->peer == peer && link->hasLeft) {
      return gone(peer, Reason::PEER_LEFT, kNeeded);
    }
  }
  const auto mark = decodeMark(roster_[static_cast<std::size_t>(peer)].process);
  if (mark && lifeOf(*mark, here_) == Life::GONE) {
    // One that ends because the group has failed says so before it does.
    return toldCause().value_or(gone(peer, Reason::PEER_DEAD, "has died"));
  }
  const Reached reached = reachUntil(
      peer, Purpose::ASK, Deadline::after(kEnding), [this] { return toldCause(); },
      [](const Reached& each) {
        return each.how == How::ANSWERED || each.how == How::REFUSED || each.how == How::NOT_PROVEN;
      });
  return causeOf(peer, reached);
}

AbortCause Mesh::causeOf(int peer, const Reached& reached) const {
  using How = Reached::How;
  if (reached.report && reached.report->cause) {
    return *reached.report->cause;
  }
  if (reached.report && reached.report->state == Report::State::LIVE) {
    return gone(peer, Reason::PEER_UNREACHABLE, "lives, but the connection to it has broken");
  }
  switch (reached.how) {
    case How::REFUSED:
      return gone(peer, Reason::PEER_DEAD, "has died");
    case How::NOT_PROVEN:
      return gone(peer, Reason::AUTH_FAILED,
                  "has another secret than this rank, or only one of the two has one: give all "
                  "processes of the job the same "
                  "UNISONO_AUTH_SECRET_FILE or UNISONO_AUTH_SECRET");
    case How::STALLED:
    case How::UNREACHED:
      return gone(peer, Reason::PEER_UNREACHABLE, str("cannot be reached: ", reached.why));
    default:
      return gone(peer, Reason::PEER_LEFT, kNeeded);
  }
}

AbortCause Mesh::gone(int peer, Reason reason, std::string_view how) const {
  return {.reason = reason,
          .culprits = {peer},
          .reporter = rank(),
          .seq = calls_.last(),
          .text = str(nameOf(peer), " (",
                      reason == Reason::TIMEOUT ? describe(peer) : placeOf(peer), ") ", how)};
}

void Mesh::checkHosts() const {
  const Milliseconds netDead = streamOptions_.netDead;
  for (const auto& link : all_) {
    if (!link->hasLeft && isPeerGone(link->socket.fd(), netDead)) {
      throw Lost{gone(link->peer, Reason::PEER_UNREACHABLE,
                      str("cannot be reached: its host has acknowledged nothing for ",
                          formatDuration(netDead)))};
    }
  }
}

std::optional<AbortCause> Mesh::toldCause() {
  auto cause = toldHere();
  Mesh* const sibling = operations_ != nullptr ? operations_ : mail_.get();
  return cause || sibling == nullptr ? cause : sibling->toldInPassing();
}

/// As toldHere(), unless somebody has its turn: that one hears it by itself.
std::optional<AbortCause> Mesh::toldInPassing() {
  if (taken_.exchange(true, std::memory_order_acq_rel)) {
    return std::nullopt;
  }
  std::optional<AbortCause> cause;
  try {
    collectArrivals();
    cause = toldHere();
  } catch (const std::bad_alloc&) {
    // It is heard by who comes next.
  }
  taken_.exchange(false, std::memory_order_acq_rel);  // as at the end of a Turn
  if (hasFailed()) {
    tellFailure();
  }
  return cause;
}

std::optional<AbortCause> Mesh::toldHere() {
  for (const auto& link : all_) {
    AbortCause cause;
    if (link->receiver == nullptr && peek(*link, cause) == News::CAUSE) {
      return cause;
    }
  }
  return std::nullopt;
}

/// What is there to be received; `cause` when it is one.
Mesh::News Mesh::peek(Link& link, AbortCause& cause) {
  Frame::Bytes head;
  const ssize_t got = ::recv(link.socket.fd(), head.data(), head.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && isForLater()) {
    return News::NONE;
  }
  if (got <= 0) {
    return News::END;
  }
  const auto frame =
      static_cast<std::size_t>(got) < head.size() ? std::nullopt : Frame::decode(head);
  if (!frame || frame->kind == Frame::Kind::DATA) {
    return News::DATA;
  }
  static_cast<void>(::recv(link.socket.fd(), head.data(), head.size(), MSG_DONTWAIT));
  if (frame->kind == Frame::Kind::BYE) {
    link.hasLeft = true;
    link.leftAt = systemClock().now();
    return News::NONE;
  }
  link.hasTold = true;
  cause = readCause(link, frame->bytes, {});
  return News::CAUSE;
}

/// Whether its process has: what is left behind by one that is killed.
bool Mesh::hasEndedSilently(const Link& link) const {
  if (link.hasLeft || link.hasTold) {
    return false;
  }
  const auto mark = decodeMark(roster_[static_cast<std::size_t>(link.peer)].process);
  if (!mark || lifeOf(*mark, here_) == Life::ALIVE) {
    return false;
  }
  char word = 0;
  const ssize_t got = ::recv(link.socket.fd(), &word, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

bool Mesh::look(Link& link) {
  AbortCause cause;
  switch (peek(link, cause)) {
    case News::NONE:
      return false;
    case News::DATA:
      return true;
    case News::END:
      if (link.hasLeft) {
        return true;  // nothing more is to be learned here
      }
      throw Lost{whyLost(link.peer)};
    case News::CAUSE:
      break;
  }
  throw Lost{std::move(cause)};
}

AbortCause Mesh::readCause(Link& link, std::uint64_t bytes, std::string begun) {
  if (bytes <= kLongestCause && begun.size() <= bytes) {
    const std::size_t before = begun.size();
    begun.resize(bytes);
    if (link.socket
            .recvExact(begun.data() + before, begun.size() - before, Deadline::after(kEnding))
            .isDone()) {
      if (auto cause = decodeCause(begun)) {
        return *cause;
      }
    }
  }
  return gone(link.peer, Reason::PROTOCOL, "has failed, and what it says of it is not understood");
}

}  // namespace unisono::mesh

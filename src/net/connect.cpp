#include "net/connect.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

#include "base/random.hpp"
#include "base/str.hpp"
#include "base/wait.hpp"
#include "net/resolve.hpp"
#include "net/retry.hpp"

namespace unisono {
namespace {

constexpr Milliseconds kHeadStart(250);  // RFC 8305's connection attempt delay
// What one attempt gets in any case: on one host an answer is there within microseconds, but not
// before connect() returns.
constexpr Milliseconds kShortestRound(10);
constexpr Milliseconds kLongestRound(std::chrono::seconds(10));

/// Failures that another try cannot cure.
bool isFinal(int error) noexcept {
  constexpr std::array kFinal = {EACCES, EPERM, EAFNOSUPPORT, EPROTONOSUPPORT, EPROTOTYPE, EINVAL};
  return std::find(kFinal.begin(), kFinal.end(), error) != kFinal.end();
}

/// Failures that say that this host has no way to such an address, not that the peer is not there:
/// of a host without IPv6, "localhost" may still be ::1, too.
bool isOutOfReach(int error) noexcept {
  constexpr std::array kOutOfReach = {EADDRNOTAVAIL, ENETUNREACH, EAFNOSUPPORT};
  return std::find(kOutOfReach.begin(), kOutOfReach.end(), error) != kOutOfReach.end();
}

/// The attempts of one round. Its steps and sleeps are those of one waitUntil.
class Race final : public Waitable {
 public:
  Race(ConnectHistory& history, const std::vector<SocketAddress>& addresses)
      : history_(history), addresses_(detail::interleaved(addresses)) {}

  /// Looks at the attempts under way and starts the next if it is time; true when all is over.
  bool step() {
    for (;;) {
      harvest();
      if (winner_.valid()) {
        return true;
      }
      const bool mayStart = next_ < addresses_.size() && (running_.empty() || nextStart_.expired());
      if (!mayStart) {
        return running_.empty() && next_ == addresses_.size();
      }
      start(addresses_[next_++]);
    }
  }

  void sleep(Milliseconds most) override {
    const bool moreToCome = next_ < addresses_.size();
    const Milliseconds slice = moreToCome ? std::min(most, nextStart_.remaining()) : most;
    std::vector<pollfd> entries = pollEntries();
    static_cast<void>(::poll(entries.data(), entries.size(), static_cast<int>(slice.count())));
  }

  ConnectRound finish() {
    for (const Attempt& attempt : running_) {
      if (!winner_.valid()) {
        history_.addFailure(attempt.address, "no answer");
        worthRetrying_ = true;
        others_ = true;
      }
    }
    return {std::move(winner_), worthRetrying_, refused_ && !others_};
  }

 private:
  struct Attempt {
    UniqueFd fd;
    SocketAddress address;
  };

  std::vector<pollfd> pollEntries() const {
    std::vector<pollfd> entries;
    for (const Attempt& attempt : running_) {
      entries.push_back({.fd = attempt.fd.get(), .events = POLLOUT, .revents = 0});
    }
    return entries;
  }

  void start(const SocketAddress& address) {
    nextStart_ = Deadline::after(kHeadStart);
    UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.valid()) {
      fail(address, errno);
      return;
    }
    applyStreamOptions(fd.get(), options_);
    const int outcome = ::connect(fd.get(), address.raw(), address.size());
    // A signal does not stop a connection attempt: it goes on as if EINPROGRESS had been said.
    if (outcome != 0 && errno != EINPROGRESS && errno != EINTR) {
      fail(address, errno);
      return;
    }
    running_.push_back({std::move(fd), address});
  }

  /// Takes out the attempts that have ended.
  void harvest() {
    std::vector<pollfd> entries = pollEntries();
    if (entries.empty() || ::poll(entries.data(), entries.size(), 0) <= 0) {
      return;
    }
    std::vector<Attempt> still;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].revents == 0) {
        still.push_back(std::move(running_[i]));
      } else if (!winner_.valid()) {
        settle(running_[i]);
      }
    }
    running_ = std::move(still);
  }

  void settle(Attempt& attempt) {
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(attempt.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = errno;
    }
    if (error == 0 && detail::isSelfConnected(attempt.fd.get())) {
      error = ECONNREFUSED;
    }
    if (error == 0) {
      winner_ = Socket(std::move(attempt.fd), options_.netDead);
    } else {
      fail(attempt.address, error);
    }
  }

  void fail(const SocketAddress& address, int error) {
    history_.addFailure(address, errnoDetail(error));
    worthRetrying_ = worthRetrying_ || !isFinal(error);
    refused_ = refused_ || error == ECONNREFUSED;
    others_ = others_ || (error != ECONNREFUSED && !isOutOfReach(error));
    nextStart_ = Deadline::at(TimePoint::min());
  }

  ConnectHistory& history_;
  const std::vector<SocketAddress> addresses_;
  const StreamOptions options_ = StreamOptions::fromEnvironment();
  std::size_t next_ = 0;
  Deadline nextStart_ = Deadline::at(TimePoint::min());
  std::vector<Attempt> running_;
  Socket winner_;
  bool worthRetrying_ = false;
  bool refused_ = false;  // at least one address said that nobody listens
  bool others_ = false;   // one that can be reached did not say so
};

}  // namespace

ConnectHistory::ConnectHistory(HostPort target, Milliseconds timeout)
    : target_(std::move(target)), timeout_(timeout), start_(systemClock().now()) {}

void ConnectHistory::addFailure(const SocketAddress& address, std::string why) {
  const auto same = [&](const Tried& tried) { return tried.address == address; };
  const auto found = std::find_if(tried_.begin(), tried_.end(), same);
  if (found == tried_.end()) {
    tried_.push_back({address, std::move(why), 1});
  } else {
    found->why = std::move(why);
    ++found->attempts;
  }
}

void ConnectHistory::addResolveFailure(std::string why) {
  resolveProblem_ = std::move(why);
  ++resolveFailures_;
}

std::string ConnectHistory::describe() const {
  std::vector<std::string> parts;
  for (const Tried& tried : tried_) {
    parts.push_back(str(tried.address.text(), ": ", tried.why, ", ", tried.attempts,
                        tried.attempts == 1 ? " attempt" : " attempts"));
  }
  if (resolveFailures_ > 0) {
    parts.push_back(str("the name '", target_.host, "' could not be resolved: ", resolveProblem_,
                        " (tried ", resolveFailures_,
                        resolveFailures_ == 1 ? " time)" : " times)"));
  }
  return parts.empty() ? "no address was tried" : join(parts, "; ");
}

DistNetworkError ConnectHistory::error(std::string sentence) const {
  const bool neverResolved = tried_.empty() && resolveFailures_ > 0;
  return DistNetworkError(
      {.reason = neverResolved ? Reason::CONFIG : Reason::PEER_UNREACHABLE,
       .what = str(sentence, " (", target_.host, ", ", target_.port, "). ", describe()),
       .hint = neverResolved ? "use an IP address, or fix the name service"
                             : "is the server (rank 0) running there, and is the port right?",
       .op = "connect",
       .host = target_.text(),
       .elapsed = elapsedSince(start_)});
}

DistNetworkError ConnectHistory::timedOut() const {
  return error(str("The client socket has timed out after ", timeout_.count(),
                   "ms while trying to connect to"));
}

DistNetworkError ConnectHistory::failedForGood() const {
  return error("The client socket has failed to connect to any network address of");
}

namespace detail {

std::vector<SocketAddress> interleaved(const std::vector<SocketAddress>& addresses) {
  std::vector<SocketAddress> rest = addresses;
  std::vector<SocketAddress> ordered;
  while (!rest.empty()) {
    const int last = ordered.empty() ? AF_UNSPEC : ordered.back().family();
    const auto other = std::find_if(rest.begin(), rest.end(),
                                    [&](const SocketAddress& a) { return a.family() != last; });
    const auto pick = other == rest.end() ? rest.begin() : other;
    ordered.push_back(*pick);
    rest.erase(pick);
  }
  return ordered;
}

ConnectRound raceOnce(ConnectHistory& history, const std::vector<SocketAddress>& addresses,
                      Deadline deadline) {
  Race race(history, addresses);
  const WaitContext context{.deadline = deadline.within(kLongestRound), .subject = {}};
  static_cast<void>(waitUntil([&] { return race.step(); }, context, race));
  return race.finish();
}

bool isSelfConnected(int fd) noexcept {
  return SocketAddress::localOf(fd) == SocketAddress::peerOf(fd);
}

}  // namespace detail

ConnectRound tryConnectOnce(ConnectHistory& history, Deadline deadline) {
  const Deadline end = std::max(deadline, Deadline::after(kShortestRound));
  const HostPort& target = history.target();
  const Result<std::vector<SocketAddress>> addresses = resolve(target.host, target.port, end);
  if (!addresses.isOk()) {
    history.addResolveFailure(addresses.failure().text());
    return {Socket(), addresses.failure().reason() != Reason::USAGE};
  }
  return detail::raceOnce(history, addresses.value(), end);
}

Socket connectTo(const std::string& host, std::uint16_t port, Deadline deadline,
                 Milliseconds timeout) {
  ConnectHistory history({host, port}, timeout);
  SeededRng rng(randomSeed());
  Backoff backoff(rng);
  const WaitContext context{.deadline = deadline, .subject = [&] {
                              return str("a connection to ", history.target().text(), " (",
                                         history.describe(), ")");
                            }};
  ConnectRound round;
  const auto attempt = [&] {
    round = tryConnectOnce(history, deadline);
    return round.socket.valid() || !round.worthRetrying;
  };
  if (!retryUntil(attempt, context, backoff)) {
    throw history.timedOut();
  }
  if (!round.socket.valid()) {
    throw history.failedForGood();
  }
  return std::move(round.socket);
}

}  // namespace unisono

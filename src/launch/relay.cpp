#include "launch/relay.hpp"

#include <cerrno>
#include <deque>
#include <exception>
#include <map>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "base/str.hpp"
#include "launch/passage.hpp"
#include "net/accept.hpp"
#include "net/listener.hpp"
#include "net/port_owner.hpp"
#include "net/reactor.hpp"
#include "net/run_on.hpp"
#include "net/socket.hpp"

namespace unisono::launch {
namespace {

constexpr std::size_t kReadSize = 64 * 1024;
constexpr int kAcceptsPerTurn = 64;
constexpr Milliseconds kTick(100);

Listener listenOn(const HostPort& place, Deadline deadline) {
  Listener listener = Listener::open(place.host, place.port, "auto", deadline);
  if (!listener.isLoopbackOnly()) {
    throw DistNetworkError(
        {.reason = Reason::CONFIG,
         .what = str(place.host, " is no loopback address, and ranks need no secret there"),
         .hint = "use localhost"});
  }
  return listener;
}

}  // namespace

/// What runs on the relay's thread. All of it belongs to the loop, but for what the maker does
/// before run().
class Relay::Loop {
 public:
  Loop(Listener listener, const Key& key);

  void run() { reactor_->run(); }
  void stop() noexcept { reactor_->stop(); }
  std::uint16_t port() const noexcept { return listener_.port(); }
  void leadTo(const SocketAddress& store);

 private:
  struct Door final : Watcher {
    Door(Loop& owner, int listenFd) : loop(owner), fd(listenFd) {}
    void onReady(bool, bool) noexcept override { loop.accept(fd); }
    Loop& loop;
    int fd;
  };
  struct Client;
  /// One of the two sockets of a client.
  struct End final : Watcher {
    End(Loop& owner, Client& whole, Passage::Side which)
        : loop(owner), client(whole), side(which) {}
    void onReady(bool readable, bool writable) noexcept override {
      loop.serve(*this, readable, writable);
    }
    Loop& loop;
    Client& client;
    const Passage::Side side;
    UniqueFd fd;
  };
  struct Client {
    Client(Loop& owner, std::uint64_t number, const Key& key)
        : id(number),
          passage(key),
          near(owner, *this, Passage::Side::NEAR),
          far(owner, *this, Passage::Side::FAR) {}
    std::uint64_t id;
    Passage passage;
    End near;
    End far;
    bool connecting = true;
  };

  void openDoors();
  void accept(int listenFd) noexcept;
  bool acceptNext(int listenFd);
  void welcome(UniqueFd fd, const SocketAddress& peer);
  void serve(End& end, bool readable, bool writable) noexcept;
  bool move(End& end, bool readable, bool writable);
  bool receive(End& end);
  bool send(End& end);
  bool watchFor(Client& client);
  void drop(Client& client) noexcept;
  void report(const Status& why) noexcept;
  void tick();

  const Key key_;
  const StreamOptions streamOptions_ = StreamOptions::fromEnvironment();
  const Listener listener_;
  SocketAddress store_;
  std::vector<char> buffer_ = std::vector<char>(kReadSize);
  std::deque<Door> doors_;
  std::map<std::uint64_t, Client> clients_;
  std::uint64_t lastId_ = 0;
  ReserveFd reserve_;
  bool accepting_ = false;
  LogLimit limit_;
  // Last: goes first, while the descriptors that it watches are open.
  const std::unique_ptr<Reactor> reactor_ = makeUvReactor();
};

Relay::Loop::Loop(Listener listener, const Key& key) : key_(key), listener_(std::move(listener)) {
  reactor_->role.assertHeld();
  for (const int fd : listener_.fds()) {
    Door& door = doors_.emplace_back(*this, fd);
    if (const Status status = reactor_->watch(fd, {}, door); !status.isOk()) {
      throw DistNetworkError({.reason = status.reason(), .what = status.text()});
    }
  }
  reactor_->startTicks(kTick, [this] { tick(); });
}

void Relay::Loop::leadTo(const SocketAddress& store) {
  runOn(*reactor_, [&] {
    store_ = store;
    while (!clients_.empty()) {
      drop(clients_.begin()->second);
    }
    openDoors();
  });
}

void Relay::Loop::report(const Status& why) noexcept {
  try {
    if (std::string more; limit_.admit(&more)) {
      UNISONO_LOG(WARN, "launch", why.text(), " [", token(why.reason()), "]", more);
    }
  } catch (const std::exception&) {
    return;  // no memory for a message
  }
}

void Relay::Loop::openDoors() {
  reactor_->role.assertHeld();
  accepting_ = true;
  for (const Door& door : doors_) {
    reactor_->change(door.fd, {.read = true});
  }
}

void Relay::Loop::accept(int listenFd) noexcept {
  try {
    for (int turn = 0; turn < kAcceptsPerTurn && acceptNext(listenFd); ++turn) {}
  } catch (const std::exception& error) {  // out of memory: those who are connected stay
    report({Reason::RESOURCE, error.what()});
  }
}

/// Accepts one connection; false when there is none, or no room for it.
bool Relay::Loop::acceptNext(int listenFd) {
  reactor_->role.assertHeld();
  AcceptResult result = acceptOne(listenFd);
  if (result.status == AcceptStatus::GOT) {
    welcome(std::move(result.fd), result.peer);
    return true;
  }
  if (result.status == AcceptStatus::EXHAUSTED || result.status == AcceptStatus::FAILED) {
    reserve_.shed(listenFd);
    accepting_ = false;  // until the next tick
    for (const Door& door : doors_) {
      reactor_->change(door.fd, {});
    }
  }
  return result.status == AcceptStatus::TRANSIENT;
}

void Relay::Loop::welcome(UniqueFd fd, const SocketAddress& peer) {
  reactor_->role.assertHeld();
  if (isOfAnotherUser(fd.get())) {
    report({Reason::AUTH_FAILED, str("a connection from ", peer.text(),
                                     " was closed: it is not of the user whose job this is")});
    return;
  }
  UniqueFd far(::socket(store_.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!far.valid() ||
      (::connect(far.get(), store_.raw(), store_.size()) != 0 && errno != EINPROGRESS)) {
    return;  // it learns from the end of its connection that there is no store
  }
  applyStreamOptions(fd.get(), streamOptions_);
  applyStreamOptions(far.get(), streamOptions_);
  const std::uint64_t id = ++lastId_;
  Client& client = clients_.try_emplace(id, *this, id, key_).first->second;
  client.near.fd = std::move(fd);
  client.far.fd = std::move(far);
  if (!reactor_->watch(client.near.fd.get(), {}, client.near).isOk() ||
      !reactor_->watch(client.far.fd.get(), {}, client.far).isOk()) {
    drop(client);
    return;
  }
  static_cast<void>(watchFor(client));
}

void Relay::Loop::serve(End& end, bool readable, bool writable) noexcept {
  Client& client = end.client;
  try {
    if (!move(end, readable, writable) || !watchFor(client)) {
      drop(client);
    }
  } catch (const std::exception& error) {  // out of memory: this client goes, the others stay
    report({Reason::RESOURCE, error.what()});
    drop(client);
  }
}

/// Does what can be done at once; false when the connection is over.
bool Relay::Loop::move(End& end, bool readable, bool writable) {
  Client& client = end.client;
  if (writable && &end == &client.far && client.connecting) {
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(end.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
      return false;
    }
    client.connecting = false;
  }
  if (readable && !receive(end)) {
    return false;
  }
  // What came from one end goes to the other; what both agree on first may go to either.
  return send(client.near) && (client.connecting || send(client.far));
}

bool Relay::Loop::receive(End& end) {
  Passage& passage = end.client.passage;
  if (!passage.wantsFrom(end.side)) {
    return true;
  }
  const ssize_t got = ::recv(end.fd.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (got < 0) {
    return isForLater();
  }
  if (got == 0) {
    passage.end(end.side);
    return true;
  }
  const Status taken = passage.take(end.side, {buffer_.data(), static_cast<std::size_t>(got)});
  if (!taken.isOk()) {
    report(taken);
  }
  return taken.isOk();
}

bool Relay::Loop::send(End& end) {
  Passage& passage = end.client.passage;
  std::string& out = passage.pendingFor(end.side);
  if (!out.empty()) {
    const ssize_t sent = ::send(end.fd.get(), out.data(), out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && !isForLater()) {
      return false;
    }
    out.erase(0, sent > 0 ? static_cast<std::size_t>(sent) : 0);
  }
  if (out.empty() && passage.hasEnded(Passage::other(end.side))) {
    ::shutdown(end.fd.get(), SHUT_WR);
  }
  return true;
}

/// False when nothing is left to wait for.
bool Relay::Loop::watchFor(Client& client) {
  reactor_->role.assertHeld();
  Passage& passage = client.passage;
  if (passage.isOver()) {
    return false;
  }
  reactor_->change(client.near.fd.get(),
                   {.read = passage.wantsFrom(Passage::Side::NEAR),
                    .write = !passage.pendingFor(Passage::Side::NEAR).empty()});
  reactor_->change(client.far.fd.get(),
                   {.read = !client.connecting && passage.wantsFrom(Passage::Side::FAR),
                    .write = client.connecting || !passage.pendingFor(Passage::Side::FAR).empty()});
  return true;
}

void Relay::Loop::drop(Client& client) noexcept {
  reactor_->role.assertHeld();
  reactor_->unwatch(client.near.fd.get());
  reactor_->unwatch(client.far.fd.get());
  clients_.erase(client.id);
}

void Relay::Loop::tick() {
  reactor_->role.assertHeld();
  if (!accepting_ && store_.isInternet()) {
    openDoors();
  }
  for (auto next = clients_.begin(); next != clients_.end();) {
    Client& client = next->second;
    ++next;
    if (isPeerGone(client.far.fd.get(), streamOptions_.netDead)) {
      drop(client);
    }
  }
}

Relay::Relay(const HostPort& place, const Key& key, Deadline deadline)
    : loop_(std::make_unique<Loop>(listenOn(place, deadline), key)),
      thread_("unisono-relay", [loop = loop_.get()] { loop->run(); }) {}

Relay::~Relay() {
  loop_->stop();
}

std::uint16_t Relay::port() const noexcept {
  return loop_->port();
}

void Relay::leadTo(const SocketAddress& store) {
  loop_->leadTo(store);
}

}  // namespace unisono::launch

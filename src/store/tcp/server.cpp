#include "store/tcp/server.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <deque>
#include <map>
#include <sys/socket.h>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/str.hpp"
#include "net/accept.hpp"
#include "net/listener.hpp"
#include "net/reactor.hpp"
#include "net/secret.hpp"
#include "net/socket.hpp"
#include "store/decimal.hpp"
#include "store/tcp/core.hpp"

namespace unisono::tcp {
namespace {

UNISONO_KNOB(std::string, kBind, "UNISONO_STORE_BIND", "auto",
             "where a store server listens: auto (the addresses of its host), any, or an address");

UNISONO_KNOB(bool, kAdmitLocal, "UNISONO_STORE_ADMIT_LOCAL", "1",
             "a store server that has a secret serves clients without one, as PyTorch's are, if "
             "they connect by loopback");

constexpr std::size_t kReadSize = 64 * 1024;
constexpr int kReadsPerTurn = 4;  // then the others have their turn
constexpr int kAcceptsPerTurn = 256;
constexpr Milliseconds kFlushTime(5);    // then the loop looks at requests again
constexpr Milliseconds kLongService(1);  // who took more has to let others go first
// Replies wait until what is ready has been read: up to so many bytes, of so many clients. With
// more clients the first ones would do nothing meanwhile, although they could ask again already.
constexpr std::uint64_t kHeldReplies = 1024 * 1024;
constexpr std::size_t kHeldClients = 64;
constexpr Milliseconds kTick(100);
constexpr std::size_t kLooksPerTick = 256;  // at connections whose host may be gone
constexpr Milliseconds kAcceptPause(100);
constexpr Milliseconds kCountAgain(5);

void requirePermission(const SocketAddress& address, bool isLoopbackOnly, bool hasKey) {
  if (isLoopbackOnly || hasKey || isUnauthenticatedAllowed()) {
    return;
  }
  throw DistNetworkError(
      {.reason = Reason::CONFIG,
       .what = str("the store server refuses to listen on ", address.text(),
                   ": other hosts could read and write it, and nothing authenticates them"),
       .hint = "give all processes of the job a secret with UNISONO_AUTH_SECRET_FILE, or listen on "
               "a loopback address, or permit it on a trusted network with "
               "UNISONO_ALLOW_UNAUTHENTICATED=1"});
}

/// A socket that is handed over stays its owner's unless it is listened on.
Listener takeOver(int fd, std::uint16_t expectedPort, bool hasKey) {
  Listener::requireBound(fd, expectedPort);
  const SocketAddress address = SocketAddress::localOf(fd);
  requirePermission(address, address.isLoopback(), hasKey);
  return Listener::adopt(fd, expectedPort);
}

Listener listenFor(const StoreServer::Options& options, Deadline deadline) {
  if (options.listenFd) {
    return takeOver(*options.listenFd, options.port, options.key.has_value());
  }
  Listener listener = Listener::open(options.host, options.port, kBind.value(), deadline);
  requirePermission(listener.addresses().front(), listener.isLoopbackOnly(),
                    options.key.has_value());
  return listener;
}

}  // namespace

/// What runs on the server's thread. All of it belongs to the loop, but for what the maker does
/// before run().
class StoreServer::Loop {
 public:
  Loop(Listener listener, std::unique_ptr<Reactor> reactor, const Options& options);

  void run() { reactor_.run(); }
  void stop() noexcept { reactor_.stop(); }
  const Listener& listener() const noexcept { return listener_; }
  std::size_t connectionCount() const noexcept { return count_.load(std::memory_order_relaxed); }

  class Count;
  void watch(const std::shared_ptr<Count>& count) {
    reactor_.post([this, count] { counts_.push_back(count); });
  }

 private:
  /// A listening socket.
  struct Door final : Watcher {
    Door(Loop& owner, int listenFd) : loop(owner), fd(listenFd) {}
    void onReady(bool, bool) noexcept override { loop.accept(fd); }
    Loop& loop;
    int fd;
  };
  /// A client's socket.
  struct Client final : Watcher {
    Client(Loop& owner, ConnectionId number, UniqueFd socket)
        : loop(owner), id(number), fd(std::move(socket)) {}
    void onReady(bool readable, bool writable) noexcept override {
      loop.serve(*this, readable, writable);
    }
    std::size_t send(std::string_view bytes) noexcept;
    Loop& loop;
    ConnectionId id;
    UniqueFd fd;
    bool deaf = false;     // takes no replies any more; what it sent before is still to be done
    bool resting = false;  // is not read from until its turn comes, see rest()
  };

  void accept(int listenFd) noexcept;
  bool acceptNext(int listenFd);
  void welcome(UniqueFd fd, const SocketAddress& peer);
  void pauseAccepting(int error);
  void resumeAccepting();
  void serve(Client& client, bool readable, bool writable) noexcept;
  bool receive(Client& client);
  void rest(Client& client);
  void endTurn();
  void work() noexcept;
  void endOneRest();
  void takeAnotherTurn();
  void tellCounts();
  void flushTouched();
  void flush(Client& client);
  void changeInterest(Client& client);
  void tryFlush(Client& client) noexcept;
  void drop(ConnectionId id) noexcept;
  void tick();
  void dropTheGone();
  void warnWhenNearlyFull();
  void report(ConnectionId id, const Status& why) noexcept;

  const StreamOptions streamOptions_ = StreamOptions::fromEnvironment();
  const bool admitLocal_;
  const Listener listener_;
  StoreCore core_;
  std::vector<char> buffer_ = std::vector<char>(kReadSize);  // one for all connections
  std::deque<Door> doors_;
  std::unordered_map<ConnectionId, Client> clients_;
  std::size_t nextLook_ = 0;  // a bucket of clients_
  std::deque<ConnectionId> resting_;
  std::vector<std::shared_ptr<Count>> counts_;
  bool turnPosted_ = false;
  std::size_t served_ = 0;  // since replies were last sent
  ConnectionId lastId_ = 0;
  ReserveFd reserve_;
  TimePoint acceptAgain_{};
  bool accepting_ = true;
  bool nearlyFull_ = false;
  LogLimit fullness_;
  std::array<LogLimit, 32> limits_;  // by reason
  std::atomic<std::size_t> count_{0};
  // Last: goes first, while the descriptors that it watches are open.
  const std::unique_ptr<Reactor> owned_;
  Reactor& reactor_;
};

/// A number that somebody waits for.
class StoreServer::Loop::Count final : public Waitable {
 public:
  Count(std::string key, std::int64_t least) : key_(std::move(key)), least_(least) {}

  void sleep(Milliseconds most) override {
    {
      const MutexLock lock(mutex_);
      if (!isReached_) {
        changed_.sleep(mutex_, most);
        return;
      }
    }
    TimerWaitable(kCountAgain).sleep(most);  // it has become less since
  }
  /// On the loop: whether it is reached, which is then told.
  bool look(const KvTable& table) {
    const std::string* value = table.find(key_);
    const Result<std::int64_t> number = addDecimal(value == nullptr ? "" : *value, 0);
    if (!number.isOk() || number.value() < least_) {
      return false;
    }
    const MutexLock lock(mutex_);
    isReached_ = true;
    changed_.notifyAll();
    return true;
  }

 private:
  const std::string key_;
  const std::int64_t least_;
  Mutex mutex_;
  CondVar changed_;
  bool isReached_ UNISONO_GUARDED_BY(mutex_) = false;
};

StoreServer::Loop::Loop(Listener listener, std::unique_ptr<Reactor> reactor, const Options& options)
    : admitLocal_(options.admitLocal && kAdmitLocal.value()),
      listener_(std::move(listener)),
      core_(options.limits, systemClock().now(), options.key),
      owned_(std::move(reactor)),
      reactor_(*owned_) {
  reactor_.role.assertHeld();
  for (const int fd : listener_.fds()) {
    Door& door = doors_.emplace_back(*this, fd);
    if (const Status status = reactor_.watch(fd, {.read = true}, door); !status.isOk()) {
      throw DistNetworkError({.reason = status.reason(),
                              .what = status.text(),
                              .hint = "raise the limit of open files: ulimit -n"});
    }
  }
  reactor_.startTicks(kTick, [this] { tick(); });
  // First all that is ready is read, then all answers are sent: with many requests in flight that
  // is faster than to go back and forth.
  reactor_.atTurnEnd([this] { endTurn(); });
}

void StoreServer::Loop::accept(int listenFd) noexcept {
  try {
    for (int turn = 0; turn < kAcceptsPerTurn && acceptNext(listenFd); ++turn) {}
  } catch (const std::exception& error) {  // out of memory: those who are connected stay
    report(0, {Reason::RESOURCE, error.what()});
  }
}

/// Accepts one connection; false when there is none, or no room for it.
bool StoreServer::Loop::acceptNext(int listenFd) {
  AcceptResult result = acceptOne(listenFd);
  switch (result.status) {
    case AcceptStatus::GOT:
      if (core_.connectionCount() < core_.limits().connections) {
        welcome(std::move(result.fd), result.peer);
      } else {
        report(0, {Reason::LIMIT,
                   str("a connection from ", result.peer.text(), " was closed: the limit is ",
                       core_.limits().connections, " connections")});
      }
      return true;
    case AcceptStatus::TRANSIENT:
      return true;
    case AcceptStatus::NOTHING:
      return false;
    case AcceptStatus::EXHAUSTED:
    case AcceptStatus::FAILED:
      break;
  }
  reserve_.shed(listenFd);
  pauseAccepting(result.error);
  return false;
}

void StoreServer::Loop::welcome(UniqueFd fd, const SocketAddress& peer) {
  reactor_.role.assertHeld();
  applyStreamOptions(fd.get(), streamOptions_);
  const ConnectionId id = ++lastId_;
  const int raw = fd.get();
  Client& client = clients_.try_emplace(id, *this, id, std::move(fd)).first->second;
  try {
    core_.open(id, peer.text(), systemClock().now(), admitLocal_ && peer.isLoopback());
    if (const Status status = reactor_.watch(raw, {.read = true}, client); !status.isOk()) {
      report(0, status);
      drop(id);
    }
  } catch (...) {  // half of it would be worse than nothing
    drop(id);
    throw;
  }
  count_.store(clients_.size(), std::memory_order_relaxed);
}

void StoreServer::Loop::pauseAccepting(int error) {
  reactor_.role.assertHeld();
  accepting_ = false;
  acceptAgain_ = systemClock().now() + kAcceptPause;
  for (const Door& door : doors_) {
    reactor_.change(door.fd, {});
  }
  report(0,
         {Reason::RESOURCE, str("no connections can be accepted for a moment: ", errnoText(error),
                                ". DO: raise the limit on open files (ulimit -n)")});
}

void StoreServer::Loop::resumeAccepting() {
  reactor_.role.assertHeld();
  accepting_ = true;
  for (const Door& door : doors_) {
    reactor_.change(door.fd, {.read = true});
  }
}

void StoreServer::Loop::serve(Client& client, bool readable, bool writable) noexcept {
  const ConnectionId id = client.id;
  try {
    const TimePoint start = systemClock().now();
    if (readable && !receive(client)) {
      if (const std::optional<Status> why = core_.whyItLeft(id)) {
        report(id, *why);
      }
      drop(id);
    } else if (readable && systemClock().now() - start > kLongService) {
      rest(client);
    } else if (writable) {
      flush(client);
    }
    if (++served_ >= kHeldClients || core_.unsentBytes() > kHeldReplies) {
      flushTouched();
    }
  } catch (const std::exception& error) {  // out of memory: this client goes, the others stay
    report(id, {Reason::RESOURCE, error.what()});
    drop(id);
  }
}

/// Takes what has arrived; false when the connection is over.
bool StoreServer::Loop::receive(Client& client) {
  for (int turn = 0; turn < kReadsPerTurn && core_.wantsRead(client.id); ++turn) {
    const ssize_t got = ::recv(client.fd.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got < 0 && isForLater()) {
      return true;
    }
    if (got <= 0) {
      return false;
    }
    const auto count = static_cast<std::size_t>(got);
    core_.receive(client.id, {buffer_.data(), count}, systemClock().now());
    if (count < buffer_.size()) {
      return true;
    }
  }
  return true;
}

/// A few bytes can ask for much, as a wait for very many keys does. Of those whose requests take
/// long one is served in a turn, or a handful of them would leave next to nothing to all others.
void StoreServer::Loop::rest(Client& client) {
  if (!client.resting) {
    resting_.push_back(client.id);
    client.resting = true;
  }
  changeInterest(client);
}

void StoreServer::Loop::endTurn() {
  flushTouched();
  work();
  endOneRest();
  tellCounts();
}

void StoreServer::Loop::tellCounts() {
  std::erase_if(counts_, [this](const std::shared_ptr<Count>& count) {
    return count.use_count() == 1 || count->look(core_.table());  // or nobody waits any more
  });
}

/// Goes on with requests about very many keys, also if nothing else happens.
void StoreServer::Loop::work() noexcept {
  try {
    if (core_.work(systemClock().now())) {
      takeAnotherTurn();
    }
    flushTouched();
  } catch (const std::exception& error) {  // out of memory: the next tick tries again
    report(0, {Reason::RESOURCE, error.what()});
  }
}

void StoreServer::Loop::endOneRest() {
  for (bool found = false; !found && !resting_.empty();) {
    const auto client = clients_.find(resting_.front());
    resting_.pop_front();
    found = client != clients_.end();
    if (found) {
      client->second.resting = false;
      changeInterest(client->second);
    }
  }
  if (!resting_.empty()) {
    takeAnotherTurn();
  }
}

/// Also if nothing happens: the end of that turn goes on with what the end of this one left.
void StoreServer::Loop::takeAnotherTurn() {
  if (!turnPosted_) {
    reactor_.post([this] { turnPosted_ = false; });
    turnPosted_ = true;
  }
}

/// Sends the replies of everybody who has some; of very many only some at a time.
void StoreServer::Loop::flushTouched() {
  served_ = 0;
  for (const Deadline end = Deadline::after(kFlushTime); !end.expired();) {
    const std::optional<ConnectionId> next = core_.nextTouched();  // closing one may touch others
    if (!next) {
      return;
    }
    const auto found = clients_.find(*next);
    if (found != clients_.end()) {
      tryFlush(found->second);
    }
  }
  takeAnotherTurn();
}

/// How many of `bytes` need not be kept: those that the kernel took, or all when nobody wants them.
/// The connection of a client that has gone ends where its requests do, see receive().
std::size_t StoreServer::Loop::Client::send(std::string_view bytes) noexcept {
  if (deaf) {
    return bytes.size();
  }
  const ssize_t count = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  deaf = count < 0 && !isForLater();
  return deaf ? bytes.size() : static_cast<std::size_t>(std::max<ssize_t>(count, 0));
}

void StoreServer::Loop::flush(Client& client) {
  reactor_.role.assertHeld();
  const ConnectionId id = client.id;
  if (const std::string_view bytes = core_.unsent(id); !bytes.empty()) {
    core_.sent(id, client.send(bytes), systemClock().now());
  }
  if (const Status* why = core_.closing(id)) {
    report(id, *why);
    drop(id);
    return;
  }
  changeInterest(client);
}

void StoreServer::Loop::changeInterest(Client& client) {
  reactor_.role.assertHeld();
  reactor_.change(client.fd.get(), {.read = !client.resting && core_.wantsRead(client.id),
                                    .write = !core_.unsent(client.id).empty()});
}

void StoreServer::Loop::tryFlush(Client& client) noexcept {
  const ConnectionId id = client.id;
  try {
    flush(client);
  } catch (const std::exception& error) {  // out of memory: this client goes, the others stay
    report(id, {Reason::RESOURCE, error.what()});
    drop(id);
  }
}

void StoreServer::Loop::drop(ConnectionId id) noexcept {
  reactor_.role.assertHeld();
  const auto found = clients_.find(id);
  if (found == clients_.end()) {
    return;
  }
  reactor_.unwatch(found->second.fd.get());
  try {
    core_.close(id);
  } catch (const std::exception& error) {  // its session is gone; others could not be told
    report(0, {Reason::RESOURCE, error.what()});
  }
  clients_.erase(found);
  count_.store(clients_.size(), std::memory_order_relaxed);
}

void StoreServer::Loop::tick() {
  const TimePoint now = systemClock().now();
  core_.tick(now);
  dropTheGone();
  flushTouched();
  work();
  warnWhenNearlyFull();
  if (!accepting_ && now >= acceptAgain_) {
    resumeAccepting();
  }
}

/// Ends connections to hosts that are gone: those with something to acknowledge, which keep-alive
/// does not look after. Of many connections, some at a time.
void StoreServer::Loop::dropTheGone() {
  const std::size_t buckets = clients_.bucket_count();
  for (std::size_t looks = std::min(buckets, kLooksPerTick); looks > 0; --looks) {
    nextLook_ = (nextLook_ + 1) % buckets;
    const auto found = std::find_if(
        clients_.cbegin(nextLook_), clients_.cend(nextLook_), [this](const auto& entry) {
          return isPeerGone(entry.second.fd.get(), streamOptions_.netDead);
        });
    if (found != clients_.cend(nextLook_)) {
      const ConnectionId id = found->first;
      report(id, {Reason::TIMEOUT, str("its host has acknowledged nothing for ",
                                       formatDuration(streamOptions_.netDead))});
      drop(id);
    }
  }
}

/// Says so once, and again only when there was room meanwhile.
void StoreServer::Loop::warnWhenNearlyFull() {
  const StoreLimits& most = core_.limits();
  const std::uint64_t bytes = core_.table().contentBytes();
  const std::uint64_t keys = core_.table().size();
  const bool nearly =
      bytes > most.contentBytes - most.contentBytes / 5 || keys > most.keys - most.keys / 5;
  std::string more;
  if (nearly && !nearlyFull_ && fullness_.admit(&more)) {
    UNISONO_LOG(WARN, "store", "server on port ", listener_.port(),
                ": the store is nearly full: ", keys, " of ", most.keys, " keys, ",
                formatBytes(bytes), " of ", formatBytes(most.contentBytes),
                " of contents. DO: delete what is not needed any more, or raise "
                "UNISONO_STORE_MAX_KEYS or UNISONO_STORE_MAX_BYTES [LIMIT]",
                more);
  }
  nearlyFull_ = nearly;
}

void StoreServer::Loop::report(ConnectionId id, const Status& why) noexcept {
  try {
    LogLimit& limit = limits_[static_cast<std::size_t>(why.reason()) % limits_.size()];
    std::string more;
    if (!limit.admit(&more)) {
      return;
    }
    const std::string who = id == 0 ? "" : str("closed the connection of ", core_.peer(id), ": ");
    UNISONO_LOG(WARN, "store", "server on port ", listener_.port(), ": ", who, why.text(), " [",
                token(why.reason()), "]", more);
  } catch (const std::exception&) {
    return;  // no memory for a message
  }
}

StoreServer::StoreServer(const Options& options, Deadline deadline) : useLibUv_(options.useLibUv) {
  raiseDescriptorLimit();
  loop_ = std::make_unique<Loop>(listenFor(options, deadline),
                                 options.useLibUv ? makeUvReactor() : makePollReactor(), options);
  thread_ = Thread("unisono-store", [loop = loop_.get()] { loop->run(); });
}

StoreServer::~StoreServer() {
  if (madeIn_.inChild()) {
    static_cast<void>(loop_.release());  // another process's: its thread may have been at work
    return;
  }
  loop_->stop();
  thread_.join();
}

std::shared_ptr<Waitable> StoreServer::counting(std::string key, std::int64_t least) {
  auto count = std::make_shared<Loop::Count>(std::move(key), least);
  loop_->watch(count);
  return count;
}

std::shared_ptr<StoreServer> StoreServer::shared(const Options& options, Deadline deadline) {
  struct Table {
    Mutex mutex;
    std::map<std::uint16_t, std::weak_ptr<StoreServer>> servers UNISONO_GUARDED_BY(mutex);
    ForkGuard madeIn;
  };
  static auto* table = new Table;  // leaked: may be needed until the process is gone
  if (table->madeIn.inChild()) {
    table = new Table;
  }
  const MutexLock lock(table->mutex);
  if (options.port != 0) {
    if (std::shared_ptr<StoreServer> running = table->servers[options.port].lock()) {
      if (options.listenFd) {  // taken over all the same, but another one serves the port
        Listener::requireBound(*options.listenFd, options.port);
        static_cast<void>(UniqueFd(*options.listenFd));
      }
      return running;
    }
  }
  auto server = std::make_shared<StoreServer>(options, deadline);
  table->servers[server->port()] = server;
  return server;
}

std::uint16_t StoreServer::port() const noexcept {
  return loop_->listener().port();
}

SocketAddress StoreServer::address() const noexcept {
  const SocketAddress first = loop_->listener().addresses().front();
  return first.isWildcard() ? SocketAddress::loopback(first.family(), first.port()) : first;
}

std::size_t StoreServer::connectionCount() const {
  return loop_->connectionCount();
}

}  // namespace unisono::tcp

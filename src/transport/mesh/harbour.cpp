#include "transport/mesh/harbour.hpp"

#include <cerrno>
#include <deque>
#include <map>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/str.hpp"
#include "base/thread.hpp"
#include "net/accept.hpp"
#include "net/handshake.hpp"
#include "net/listener.hpp"
#include "net/reactor.hpp"
#include "net/run_on.hpp"
#include "net/socket.hpp"

namespace unisono::mesh {
namespace {

// Who connects and has not proven anything after so long is no rank.
constexpr Milliseconds kPatience(5000);
constexpr Milliseconds kTick(500);
// Beyond so many the one that has said nothing for longest goes: strangers keep no rank out.
constexpr std::size_t kMostGuests = 1024;
// Of so many docks that are gone it is still known what became of them.
constexpr std::size_t kMostRemembered = 256;

/// A connection that has not proven yet where it belongs.
class Guest {
 public:
  Guest(UniqueFd connection, const SocketAddress& address)
      : fd_(std::move(connection)), address_(address) {}

  int fd() const noexcept { return fd_.get(); }
  UniqueFd takeFd() noexcept { return std::move(fd_); }
  const SocketAddress& address() const noexcept { return address_; }
  bool isLate() const noexcept { return patience_.expired(); }

  /// Receives up to the end of the next frame and not a byte more; whether that is complete.
  /// `ended`: nothing will come any more.
  bool receive(bool& ended) {
    const std::size_t before = bytes_.size();
    bytes_.resize(expected_);
    const ssize_t got = ::recv(fd(), bytes_.data() + before, expected_ - before, MSG_DONTWAIT);
    bytes_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    ended = got == 0 || (got < 0 && !isForLater());
    return bytes_.size() == expected_;
  }
  /// What receive() has got, for the one time that it is complete.
  std::string take(std::size_t next) {
    expected_ = next;
    return std::exchange(bytes_, {});
  }
  /// A frame is far smaller than what a fresh connection takes at once.
  bool send(std::string_view bytes) const noexcept {
    return ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
           static_cast<ssize_t>(bytes.size());
  }

  std::unique_ptr<HandshakeAcceptor> handshake;  // once it has said hello
  DockName name;                                 // by then
  Note note;

 private:
  UniqueFd fd_;
  const SocketAddress address_;
  const Deadline patience_ = Deadline::after(kPatience);
  std::size_t expected_ = kHelloSize + Note::kSize;
  std::string bytes_;
};

std::string asBlob(const Report& report) {
  std::string bytes;
  ByteWriter(bytes).blob(report.encode());
  return bytes;
}

}  // namespace

/// The state behind a Harbour. All of it belongs to the loop.
class Harbour::Impl {
 public:
  Impl() {
    reactor_->role.assertHeld();
    reactor_->startTicks(kTick, [this] { sendLateAway(); });
    // Detached: it ends with the process, and nothing it uses is ever destroyed.
    Thread thread("unisono-mesh", [this] { reactor_->run(); });
    thread.detach();
  }

  std::uint16_t listenAt(const SocketAddress& address) {
    std::uint16_t port = 0;
    runOn(*reactor_, [&] { port = open(address); });
    return port;
  }
  void moor(const DockName& name, const Key& key, Dock& dock) {
    runOn(*reactor_, [&] {
      docks_.erase(name);
      Moored& moored = docks_[name];
      moored.key = key;
      moored.dock = &dock;
    });
  }
  void cast(const DockName& name) {
    runOn(*reactor_, [&] { forget(name); });
  }

 private:
  struct Moored {
    Key key{};
    Dock* dock = nullptr;  // null: gone; `last` is what became of it
    Report last;
    LogLimit impostors;
  };
  struct Pier final : Watcher {
    Pier(Impl& owner, Listener listening) : impl(owner), listener(std::move(listening)) {}
    Pier(const Pier&) = delete;
    Pier& operator=(const Pier&) = delete;
    ~Pier() override { impl.unwatch(listener.fds().front()); }
    void onReady(bool, bool) noexcept override { impl.accept(listener.fds().front()); }
    Impl& impl;
    Listener listener;
  };
  struct Visit final : Watcher {
    Visit(Impl& owner, std::uint64_t which, UniqueFd fd, const SocketAddress& from)
        : impl(owner), number(which), guest(std::move(fd), from) {}
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    ~Visit() override { impl.unwatch(guest.fd()); }
    void onReady(bool, bool) noexcept override { impl.serve(*this); }  // may destroy this
    Impl& impl;
    const std::uint64_t number;
    Guest guest;
  };

  std::uint16_t open(const SocketAddress& address) {
    reactor_->role.assertHeld();
    for (const auto& pier : piers_) {
      if (pier->listener.addresses().front().withPort(0) == address.withPort(0)) {
        return pier->listener.port();
      }
    }
    const std::string where = address.hostText();
    auto pier =
        std::make_unique<Pier>(*this, Listener::open(where, 0, where, Deadline::after(kPatience)));
    const Status watched = reactor_->watch(pier->listener.fds().front(), {.read = true}, *pier);
    if (!watched.isOk()) {
      throw DistNetworkError({.reason = watched.reason(), .what = watched.text()});
    }
    piers_.push_back(std::move(pier));
    return piers_.back()->listener.port();
  }

  void accept(int listenFd) noexcept {
    reactor_->role.assertHeld();
    try {
      for (AcceptResult result = acceptOne(listenFd); result.status != AcceptStatus::NOTHING;
           result = acceptOne(listenFd)) {
        if (result.status == AcceptStatus::GOT) {
          admit(std::move(result.fd), result.peer);
        } else if (result.status != AcceptStatus::TRANSIENT) {
          if (result.status == AcceptStatus::EXHAUSTED && reserve_.shed(listenFd)) {
            continue;
          }
          reactor_->change(listenFd, {});  // until the next tick: it stays ready
          return;
        }
      }
    } catch (const std::exception& error) {
      UNISONO_LOG(WARN, "transport", "a connection was dropped: ", error.what());
    }
  }

  void admit(UniqueFd fd, const SocketAddress& from) {
    reactor_->role.assertHeld();
    if (visits_.size() >= kMostGuests) {
      visits_.erase(visits_.begin());
    }
    applyStreamOptions(fd.get(), streamOptions_);
    auto visit = std::make_unique<Visit>(*this, ++lastVisit_, std::move(fd), from);
    if (reactor_->watch(visit->guest.fd(), {.read = true}, *visit).isOk()) {
      visits_.emplace(lastVisit_, std::move(visit));
    }
  }

  void serve(Visit& visit) noexcept {
    bool goesOn = false;
    try {
      bool ended = false;
      const bool complete = visit.guest.receive(ended);
      goesOn =
          complete ? (visit.guest.handshake ? finish(visit.guest) : greet(visit.guest)) : !ended;
    } catch (const std::exception& error) {
      UNISONO_LOG(WARN, "transport", "a connection from ", visit.guest.address().text(),
                  " was dropped: ", error.what());
    }
    if (!goesOn) {
      visits_.erase(visit.number);
    }
  }

  /// The hello is there; whether the guest may go on.
  bool greet(Guest& guest) {
    const std::string frame = guest.take(kProofSize);
    const auto hello = Hello::parse(frame);
    const auto note = hello ? Note::decode(hello->note) : std::nullopt;
    if (!note) {
      std::string more;
      if (strangers_.admit(&more)) {
        UNISONO_LOG(WARN, "transport", guest.address().text(),
                    " has connected to the port for ranks of other hosts, and is none", more);
      }
      return false;
    }
    guest.name = {.id = std::string(hello->id), .rank = note->to};
    guest.note = *note;
    const auto moored = docks_.find(guest.name);
    if (moored == docks_.end()) {
      UNISONO_LOG(INFO, "transport", guest.address().text(), " wants rank ", note->to,
                  " of a group that is not here (any more)");
      return false;
    }
    guest.handshake = std::make_unique<HandshakeAcceptor>(moored->second.key, frame);
    return guest.send(guest.handshake->challenge());
  }

  /// The proof is there. The guest does not go on, one way or the other.
  bool finish(Guest& guest) {
    reactor_->role.assertHeld();
    const auto moored = docks_.find(guest.name);
    if (!guest.handshake->accepts(guest.take(0))) {
      std::string more;
      if (moored != docks_.end() && moored->second.impostors.admit(&more)) {
        UNISONO_LOG(WARN, "transport", guest.address().text(), " says it is rank ", guest.note.from,
                    " of a group here, and does not know the job's secret [AUTH_FAILED]", more);
      }
      return false;
    }
    if (moored == docks_.end()) {
      return false;
    }
    Dock* dock = moored->second.dock;
    const Report report = dock == nullptr ? moored->second.last : dock->report();
    if (report.state != Report::State::LIVE || guest.note.purpose == Purpose::ASK) {
      const char byte = report.state == Report::State::LIVE ? kWelcome : kGone;
      static_cast<void>(guest.send(std::string(1, byte) + asBlob(report)));
      return false;
    }
    if (guest.send(std::string(1, kWelcome))) {
      reactor_->unwatch(guest.fd());
      dock->arrive(guest.note, guest.takeFd());
    }
    return false;
  }

  /// Also when it was never watched.
  void unwatch(int fd) noexcept {
    reactor_->role.assertHeld();
    reactor_->unwatch(fd);
  }

  void forget(const DockName& name) {
    const auto moored = docks_.find(name);
    if (moored == docks_.end() || moored->second.dock == nullptr) {
      return;
    }
    moored->second.last = moored->second.dock->report();
    if (moored->second.last.state == Report::State::LIVE) {
      moored->second.last.state = Report::State::LEFT;
    }
    moored->second.dock = nullptr;
    remembered_.push_back(name);
    if (remembered_.size() > kMostRemembered) {
      docks_.erase(remembered_.front());
      remembered_.pop_front();
    }
  }

  void sendLateAway() {
    reactor_->role.assertHeld();
    while (!visits_.empty() && visits_.begin()->second->guest.isLate()) {
      visits_.erase(visits_.begin());
    }
    for (const auto& pier : piers_) {
      reactor_->change(pier->listener.fds().front(), {.read = true});  // if it was paused
    }
  }

  const StreamOptions streamOptions_ = StreamOptions::fromEnvironment();
  const std::unique_ptr<Reactor> reactor_ = makePollReactor();
  ReserveFd reserve_;
  std::vector<std::unique_ptr<Pier>> piers_;
  std::map<std::uint64_t, std::unique_ptr<Visit>> visits_;  // by number: who came first is first
  std::uint64_t lastVisit_ = 0;
  std::map<DockName, Moored> docks_;
  LogLimit strangers_;               // whoever can connect could fill the log
  std::deque<DockName> remembered_;  // whose docks are gone
};

Harbour::Harbour() : impl_(new Impl) {}

Harbour& Harbour::instance() {
  static Mutex mutex;
  static Harbour* harbour = nullptr;
  static std::uint32_t madeIn = 0;
  const MutexLock lock(mutex);
  if (harbour == nullptr || madeIn != forkGeneration()) {
    harbour = new Harbour;  // a parent's stays behind as it was at the fork
    madeIn = forkGeneration();
  }
  return *harbour;
}

std::uint16_t Harbour::listenAt(const SocketAddress& address) {
  return impl_->listenAt(address);
}

Harbour::Berth Harbour::moor(DockName name, const Key& key, Dock& dock) {
  impl_->moor(name, key, dock);
  return {*this, std::move(name)};
}

void Harbour::cast(const DockName& name) noexcept {
  impl_->cast(name);
}

Harbour::Berth::Berth(Berth&& other) noexcept
    : harbour_(std::exchange(other.harbour_, nullptr)),
      name_(std::move(other.name_)),
      madeIn_(other.madeIn_) {}

Harbour::Berth& Harbour::Berth::operator=(Berth&& other) noexcept {
  if (this != &other) {
    leave();
    harbour_ = std::exchange(other.harbour_, nullptr);
    name_ = std::move(other.name_);
    madeIn_ = other.madeIn_;
  }
  return *this;
}

void Harbour::Berth::leave() noexcept {
  // Not in a forked child: that harbour's thread is the parent's.
  if (Harbour* harbour = std::exchange(harbour_, nullptr);
      harbour != nullptr && !madeIn_.inChild()) {
    harbour->cast(name_);
  }
}

}  // namespace unisono::mesh

#include "life/monitor.hpp"

#include <atomic>
#include <fcntl.h>
#include <map>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fd.hpp"
#include "base/fork.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/thread.hpp"
#include "base/wait.hpp"
#include "net/reactor.hpp"
#include "net/run_on.hpp"

namespace unisono {
namespace {

// The kernel marks at most 2,048 words of one thread that dies. ThreadSanitizer follows no more
// than 64 locks of a thread.
#if defined(__SANITIZE_THREAD__)
constexpr std::size_t kWordsPerThread = 48;
#else
constexpr std::size_t kWordsPerThread = 1024;
#endif
// Who connects and says nothing for so long is no rank.
constexpr Milliseconds kPatience(5000);
constexpr std::size_t kMostCallers = 4096;
// How often who waits for an answer looks whether there is hope.
constexpr Milliseconds kHopelessLook(20);

/// A thread that does nothing but hold words, when there are very many.
struct Keeper {
  std::unique_ptr<Reactor> reactor = makePollReactor();
  std::size_t words = 0;
};

}  // namespace

/// The state behind a Monitor.
class Monitor::Impl {
 public:
  Impl() {
    reactor().role.assertHeld();
    const Status watched = reactor().watch(listener_.fd(), {.read = true}, acceptor_);
    if (!watched.isOk()) {
      throw DistError({.reason = watched.reason(), .what = watched.text()});
    }
    reactor().startTicks(Milliseconds(1000), [this] { lookAfterCallers(); });
    start(first_);
  }

  const std::string& socketName() const noexcept { return listener_.name(); }

  void hold(LifeWord& word) {
    const MutexLock lock(mutex_);
    Keeper* keeper = more_.empty() ? &first_ : more_.back().get();
    if (keeper->words == kWordsPerThread) {
      more_.push_back(std::make_unique<Keeper>());
      keeper = more_.back().get();
      start(*keeper);
    }
    runOn(*keeper->reactor, [&] { word.hold(); });
    keeper->words += 1;
    held_.emplace(&word, keeper);
  }

  void letGo(LifeWord& word) {
    const MutexLock lock(mutex_);
    const auto found = held_.find(&word);
    if (found != held_.end()) {
      Keeper* keeper = found->second;
      held_.erase(found);
      keeper->words -= 1;
      runOn(*keeper->reactor, [&] { word.letGo(); });
    }
  }

  void offer(const std::string& cookie, Handler handler) {
    runOn(reactor(), [&] { handlers_[cookie] = std::move(handler); });
  }
  void withdraw(const std::string& cookie) {
    runOn(reactor(), [&] { handlers_.erase(cookie); });
  }

 private:
  class Acceptor final : public Watcher {
   public:
    explicit Acceptor(Impl& owner) : owner_(owner) {}
    void onReady(bool /*readable*/, bool /*writable*/) noexcept override { owner_.acceptAll(); }

   private:
    Impl& owner_;
  };

  /// Somebody who connected and is about to ask one thing.
  class Caller final : public Watcher {
   public:
    Caller(Impl& owner, LocalSocket socket) : owner_(owner), socket_(std::move(socket)) {}
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;
    ~Caller() override { owner_.unwatch(socket_.fd()); }
    void onReady(bool /*readable*/, bool /*writable*/) noexcept override {
      owner_.answer(*this);
      owner_.dismiss(socket_.fd());  // destroys this
    }
    LocalSocket& socket() noexcept { return socket_; }
    bool isSilent() const noexcept { return patience_.expired(); }

   private:
    Impl& owner_;
    LocalSocket socket_;
    const Deadline patience_ = Deadline::after(kPatience);
  };

  static void start(Keeper& keeper) {
    // Detached: it ends with the process, and nothing it uses is ever destroyed.
    Thread thread("unisono-mon", [&keeper] { keeper.reactor->run(); });
    thread.detach();
  }

  Reactor& reactor() const noexcept { return *first_.reactor; }

  void acceptAll() noexcept {
    reactor().role.assertHeld();
    try {
      while (auto socket = acceptOne()) {
        admit(std::move(*socket));
      }
    } catch (const std::bad_alloc&) {
      // Whoever that was asks again, or gives up.
    }
    if (listener_.isStarved()) {
      // It stays ready: without a pause this thread would do nothing but look.
      reactor().change(listener_.fd(), {});
    }
  }

  /// When the process has no descriptors left, one caller at a time gets the spare one.
  std::optional<LocalSocket> acceptOne() {
    std::optional<LocalSocket> socket = listener_.accept();
    if (!socket && listener_.isStarved() && spare_.valid()) {
      spare_.reset();
      socket = listener_.accept();
    }
    return socket;
  }

  void admit(LocalSocket socket) {
    reactor().role.assertHeld();
    const int fd = socket.fd();
    if (callers_.size() >= kMostCallers) {
      return;
    }
    auto caller = std::make_unique<Caller>(*this, std::move(socket));
    if (reactor().watch(fd, {.read = true}, *caller).isOk()) {
      callers_.emplace(fd, std::move(caller));
    }
  }

  /// Also when it was never watched.
  void unwatch(int fd) noexcept {
    reactor().role.assertHeld();
    reactor().unwatch(fd);
  }

  void answer(Caller& caller) noexcept {
    try {
      const Deadline now = Deadline::after(Milliseconds(0));
      const Result<LocalMessage> asked = caller.socket().receive(now);
      if (!asked.isOk()) {
        return;
      }
      const std::string_view bytes = asked.value().bytes;
      for (const auto& [cookie, handler] : handlers_) {
        if (bytes.starts_with(cookie)) {
          const Answer answer = handler(bytes.substr(cookie.size()), caller.socket().peerPid());
          static_cast<void>(caller.socket().send(answer.bytes, answer.fd, now));
          return;
        }
      }
      UNISONO_LOG(INFO, "life", "process ", caller.socket().peerPid(),
                  " asked with a cookie that is not valid (any more)");
    } catch (const std::exception& error) {
      UNISONO_LOG(WARN, "life", "a request of another process failed: ", error.what());
    }
  }

  void dismiss(int fd) noexcept {
    unwatch(fd);
    reactor().role.assertHeld();
    if (const auto caller = callers_.find(fd); caller != callers_.end() && !spare_.valid()) {
      // In one step: others would take a descriptor that is free for a moment.
      UniqueFd socket = caller->second->socket().release();
      if (::dup3(listener_.fd(), socket.get(), O_CLOEXEC) >= 0) {
        spare_ = std::move(socket);
        reactor().change(listener_.fd(), {.read = true});
      }
    }
    callers_.erase(fd);
    replaceSpare();
  }

  /// And lets others come again, if they were told to wait.
  void replaceSpare() noexcept {
    reactor().role.assertHeld();
    if (!spare_.valid()) {
      spare_ = openSpare();
      reactor().change(listener_.fd(), {.read = true});
    }
  }

  /// Sends away who says nothing, and lets others come again.
  void lookAfterCallers() {
    for (auto caller = callers_.begin(); caller != callers_.end();) {
      const auto& [fd, who] = *caller++;  // dismissing one leaves the others where they are
      if (who->isSilent()) {
        dismiss(fd);
      }
    }
    replaceSpare();
    reactor().role.assertHeld();
    reactor().change(listener_.fd(), {.read = true});  // if it was paused
  }

  UniqueFd openSpare() const noexcept {
    return UniqueFd(::fcntl(listener_.fd(), F_DUPFD_CLOEXEC, 0));
  }

  LocalListener listener_;
  UniqueFd spare_ = openSpare();  // stands in for one that others have taken
  Acceptor acceptor_{*this};

  Keeper first_;  // its thread also answers
  Mutex mutex_;
  std::vector<std::unique_ptr<Keeper>> more_ UNISONO_GUARDED_BY(mutex_);
  std::unordered_map<const LifeWord*, Keeper*> held_ UNISONO_GUARDED_BY(mutex_);

  // The first keeper's thread only.
  std::map<std::string, Handler> handlers_;
  std::unordered_map<int, std::unique_ptr<Caller>> callers_;
};

Monitor::Monitor() : impl_(new Impl) {}

Monitor& Monitor::instance() {
  static Mutex mutex;
  static Monitor* monitor = nullptr;
  static std::uint32_t madeIn = 0;
  const MutexLock lock(mutex);
  if (monitor == nullptr || madeIn != forkGeneration()) {
    monitor = new Monitor;  // a parent's stays behind as it was at the fork
    madeIn = forkGeneration();
  }
  return *monitor;
}

const std::string& Monitor::socketName() const noexcept {
  return impl_->socketName();
}

void Monitor::hold(LifeWord& word) {
  impl_->hold(word);
}

void Monitor::letGo(LifeWord& word) noexcept {
  impl_->letGo(word);
}

Monitor::Offer Monitor::offer(std::string cookie, Handler handler) {
  impl_->offer(cookie, std::move(handler));
  return {*this, std::move(cookie)};
}

void Monitor::withdraw(const std::string& cookie) noexcept {
  impl_->withdraw(cookie);
}

Monitor::Offer::Offer(Offer&& other) noexcept
    : monitor_(std::exchange(other.monitor_, nullptr)),
      cookie_(std::move(other.cookie_)),
      madeIn_(other.madeIn_) {}

Monitor::Offer& Monitor::Offer::operator=(Offer&& other) noexcept {
  if (this != &other) {
    withdraw();
    monitor_ = std::exchange(other.monitor_, nullptr);
    cookie_ = std::move(other.cookie_);
    madeIn_ = other.madeIn_;
  }
  return *this;
}

void Monitor::Offer::withdraw() noexcept {
  // Not in a forked child: that monitor's thread is the parent's.
  if (Monitor* monitor = std::exchange(monitor_, nullptr);
      monitor != nullptr && !madeIn_.inChild()) {
    monitor->withdraw(cookie_);
  }
}

Result<LocalMessage> askMonitor(std::string_view socketName, std::string_view cookie,
                                std::string_view request, Deadline deadline,
                                const std::function<bool()>& isHopeless) {
  // One slice after the other, until something has come of `attempt`.
  const auto patiently = [&](auto attempt) {
    for (;;) {
      const Deadline slice = isHopeless ? deadline.within(kHopelessLook) : deadline;
      auto result = attempt(slice);
      if (result.isOk() || !isHopeless || !slice.expired() || deadline.expired() || isHopeless()) {
        return result;
      }
    }
  };
  Result<LocalSocket> connected =
      patiently([&](Deadline slice) { return LocalSocket::connect(socketName, slice); });
  if (!connected.isOk()) {
    return connected.failure();
  }
  LocalSocket& socket = connected.value();
  const std::string bytes = std::string(cookie) + std::string(request);
  const Status sent = patiently([&](Deadline slice) { return socket.send(bytes, -1, slice); });
  if (!sent.isOk()) {
    return sent;
  }
  return patiently([&](Deadline slice) { return socket.receive(slice); });
}

}  // namespace unisono

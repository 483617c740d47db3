// The reactor over libuv. Descriptors stay ours: libuv only watches them (uv_poll_t).
#include <algorithm>
#include <array>
#include <atomic>
#include <fcntl.h>
#include <unistd.h>
#include <utility>
#include <uv.h>
#include <vector>

#include "unisono/base/error.hpp"

#include "base/fd.hpp"
#include "base/fork.hpp"
#include "base/spin.hpp"
#include "base/str.hpp"
#include "net/reactor.hpp"
#include "net/task_queue.hpp"

namespace unisono {
namespace {

// How long to look for the next request before sleeping. On an idle host of two cores a client is
// woken, asks again and is answered within 20 µs.
constexpr std::chrono::microseconds kPatience(50);

class UvReactor final : public Reactor {
 public:
  UvReactor();
  ~UvReactor() override;

  Status watch(int fd, Interest interest, Watcher& watcher) override UNISONO_REQUIRES(role);
  void change(int fd, Interest interest) override UNISONO_REQUIRES(role);
  void unwatch(int fd) noexcept override UNISONO_REQUIRES(role);
  void startTicks(Milliseconds period, UniqueFunction<void()> tick) override UNISONO_REQUIRES(role);
  void atTurnEnd(UniqueFunction<void()> task) override UNISONO_REQUIRES(role);
  void post(UniqueFunction<void()> task) override;
  void stop() noexcept override;
  void run() override;

 private:
  /// What libuv works on. On the heap and freed only when libuv is done with it: in a forked
  /// child never.
  struct Loop {
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t ticks;
  };
  /// One watched descriptor. Freed by libuv's close callback, after unwatch().
  struct Entry {
    uv_poll_t handle;
    Watcher* watcher;  // null once unwatched
    Interest interest;
  };

  static void onReady(uv_poll_t* handle, int status, int events);
  static void onWake(uv_async_t* handle);
  static void onTick(uv_timer_t* handle);

  /// Makes libuv watch for what `entry` is interested in.
  static void arm(Entry& entry) noexcept;
  Entry* find(int fd) const noexcept UNISONO_REQUIRES(role);
  std::array<int, 5> ownFds() const noexcept;
  bool turn(uv_run_mode mode) UNISONO_REQUIRES(role);

  const ForkGuard madeIn_;
  Loop* const loop_;
  LeakedInChild<TaskQueue> tasks_;
  std::atomic<bool> stopping_{false};
  LeakedInChild<std::vector<Entry*>> byFd_ UNISONO_GUARDED_BY(role);
  UniqueFunction<void()> tick_ UNISONO_GUARDED_BY(role);
  UniqueFunction<void()> turnEnd_ UNISONO_GUARDED_BY(role);
  Spin spin_ UNISONO_GUARDED_BY(role){kPatience};
  std::uint64_t calls_ UNISONO_GUARDED_BY(role) = 0;  // of handlers and tasks
  bool over_ UNISONO_GUARDED_BY(role) = false;
};

int uvEvents(Interest interest) noexcept {
  return (interest.read ? UV_READABLE : 0) | (interest.write ? UV_WRITABLE : 0);
}

/// While it lives, nobody gets the number of a standard stream that is closed (daemons close
/// them): libuv ends the process when it is to close such a descriptor of its own.
class StandardFdsTaken {
 public:
  StandardFdsTaken() {
    for (UniqueFd fd = next(); fd.valid() && fd.get() <= STDERR_FILENO; fd = next()) {
      taken_.push_back(std::move(fd));
    }
  }

 private:
  static UniqueFd next() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }
  std::vector<UniqueFd> taken_;
};

[[noreturn]] void refuseLoop(int error) {
  throw DistError({.reason = Reason::RESOURCE,
                   .what = str("cannot make an event loop: ", errnoDetail(-error)),
                   .hint = "raise the limit on open files (ulimit -n)"});
}

UvReactor::UvReactor() : loop_(new Loop) {
  const StandardFdsTaken taken;
  const int error = uv_loop_init(&loop_->loop);
  if (error != 0) {
    delete loop_;
    refuseLoop(error);
  }
  // These two only fill in fields: the loop has made its descriptors already.
  static_cast<void>(uv_async_init(&loop_->loop, &loop_->wake, &UvReactor::onWake));
  static_cast<void>(uv_timer_init(&loop_->loop, &loop_->ticks));
  loop_->loop.data = this;
  for (const int fd : ownFds()) {
    rememberFd(fd);
  }
}

UvReactor::~UvReactor() {
  if (madeIn_.inChild()) {
    return;
  }
  for (const int fd : ownFds()) {
    forgetFd(fd);
  }
  for (std::size_t fd = 0; fd < byFd_->size(); ++fd) {
    unwatch(static_cast<int>(fd));
  }
  uv_close(reinterpret_cast<uv_handle_t*>(&loop_->wake), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&loop_->ticks), nullptr);
  while (uv_run(&loop_->loop, UV_RUN_DEFAULT) != 0) {
    // Only close callbacks are left to run.
  }
  uv_loop_close(&loop_->loop);
  delete loop_;
}

/// What a loop opens for itself: epoll, the wake-up and a pipe for signals; -1 where it has none.
std::array<int, 5> UvReactor::ownFds() const noexcept {
  const uv_loop_t& loop = loop_->loop;
  return {uv_backend_fd(&loop), loop.async_io_watcher.fd, loop.async_wfd, loop.signal_pipefd[0],
          loop.signal_pipefd[1]};
}

UvReactor::Entry* UvReactor::find(int fd) const noexcept {
  const auto index = static_cast<std::size_t>(fd);
  return fd >= 0 && index < byFd_->size() ? (*byFd_)[index] : nullptr;
}

void UvReactor::arm(Entry& entry) noexcept {
  const int events = uvEvents(entry.interest);
  const int error = events == 0 ? uv_poll_stop(&entry.handle)
                                : uv_poll_start(&entry.handle, events, &UvReactor::onReady);
  UNISONO_DCHECK(error == 0);
  static_cast<void>(error);
}

Status UvReactor::watch(int fd, Interest interest, Watcher& watcher) {
  role.assertHeld();
  if (find(fd) != nullptr) {
    return {Reason::USAGE, str("descriptor ", fd, " is watched already")};
  }
  // All that may throw comes first: a handle that libuv knows must not be freed.
  auto entry = std::make_unique<Entry>();
  const auto index = static_cast<std::size_t>(std::max(fd, 0));
  if (index >= byFd_->size()) {
    byFd_->resize(index + 1, nullptr);
  }
  const int error = uv_poll_init(&loop_->loop, &entry->handle, fd);
  if (error != 0) {
    return {Reason::RESOURCE, str("cannot watch descriptor ", fd, ": ", errnoDetail(-error))};
  }
  entry->handle.data = entry.get();
  entry->watcher = &watcher;
  entry->interest = interest;
  arm(*entry);
  (*byFd_)[index] = entry.release();
  return Status::ok();
}

void UvReactor::change(int fd, Interest interest) {
  role.assertHeld();
  Entry* entry = find(fd);
  UNISONO_DCHECK(entry != nullptr);
  if (entry != nullptr && entry->interest != interest) {
    entry->interest = interest;
    arm(*entry);
  }
}

void UvReactor::unwatch(int fd) noexcept {
  Entry* entry = find(fd);
  if (entry == nullptr) {
    return;
  }
  (*byFd_)[static_cast<std::size_t>(fd)] = nullptr;
  entry->watcher = nullptr;
  // Closing also drops what libuv has collected for this descriptor in this turn, so nothing of
  // it reaches another watcher of the same number.
  uv_close(reinterpret_cast<uv_handle_t*>(&entry->handle),
           [](uv_handle_t* handle) { delete static_cast<Entry*>(handle->data); });
}

void UvReactor::onReady(uv_poll_t* handle, int status, int events) {
  Entry& entry = *static_cast<Entry*>(handle->data);
  auto& self = *static_cast<UvReactor*>(handle->loop->data);
  self.role.assertHeld();
  ++self.calls_;
  if (entry.watcher == nullptr) {
    return;
  }
  const Interest asked = entry.interest;
  if (status == 0) {
    entry.watcher->onReady((events & UV_READABLE) != 0, (events & UV_WRITABLE) != 0);
    return;
  }
  // An error on the socket: libuv has stopped watching, and the watcher may want to go on.
  entry.watcher->onReady(asked.read, asked.write);
  if (entry.watcher != nullptr) {
    arm(entry);
  }
}

void UvReactor::startTicks(Milliseconds period, UniqueFunction<void()> tick) {
  role.assertHeld();
  tick_ = std::move(tick);
  const auto length = static_cast<std::uint64_t>(period.count());
  uv_update_time(&loop_->loop);  // it counts from the last turn, which may be long ago
  static_cast<void>(uv_timer_start(&loop_->ticks, &UvReactor::onTick, length, length));
}

void UvReactor::onTick(uv_timer_t* handle) {
  auto& self = *static_cast<UvReactor*>(handle->loop->data);
  self.role.assertHeld();
  runOnLoop(self.tick_, "a tick");
}

void UvReactor::atTurnEnd(UniqueFunction<void()> task) {
  role.assertHeld();
  turnEnd_ = std::move(task);
}

void UvReactor::post(UniqueFunction<void()> task) {
  if (madeIn_.inChild()) {
    return;
  }
  if (tasks_->push(std::move(task))) {
    static_cast<void>(uv_async_send(&loop_->wake));
  }
}

void UvReactor::stop() noexcept {
  if (madeIn_.inChild()) {
    return;
  }
  stopping_.store(true, std::memory_order_release);
  static_cast<void>(uv_async_send(&loop_->wake));
}

void UvReactor::onWake(uv_async_t* handle) {
  auto& self = *static_cast<UvReactor*>(handle->loop->data);
  self.role.assertHeld();
  ++self.calls_;
  // Looked at before the tasks are taken: what was posted before stop() is among them. Acquire
  // pairs with the release in stop().
  const bool stopping = self.stopping_.load(std::memory_order_acquire);
  self.tasks_->runAll();
  self.over_ = stopping;
}

/// One turn of the loop; whether anything was ready.
bool UvReactor::turn(uv_run_mode mode) {
  const std::uint64_t before = calls_;
  static_cast<void>(uv_run(&loop_->loop, mode));
  if (calls_ == before) {
    return false;
  }
  if (turnEnd_) {
    runOnLoop(turnEnd_, "the end of a turn");
  }
  return true;
}

void UvReactor::run() {
  role.adopt();
  role.assertHeld();
  const auto look = [this]() UNISONO_NO_ANALYSIS { return turn(UV_RUN_NOWAIT); };
  while (!over_) {  // ends when stop() was called
    static_cast<void>(turn(UV_RUN_ONCE));
    while (!over_ && spin_.until(look)) {}
  }
}

}  // namespace

std::unique_ptr<Reactor> makeUvReactor() {
  return std::make_unique<UvReactor>();
}

}  // namespace unisono

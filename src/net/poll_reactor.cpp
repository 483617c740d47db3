// The reactor over poll(2), with an eventfd to wake it.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <vector>

#include "unisono/base/error.hpp"

#include "base/fd.hpp"
#include "base/fork.hpp"
#include "base/str.hpp"
#include "net/reactor.hpp"
#include "net/task_queue.hpp"

namespace unisono {
namespace {

constexpr Milliseconds kLongestSleep(std::chrono::hours(1));  // far within poll's int
constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

class PollReactor final : public Reactor {
 public:
  PollReactor();

  Status watch(int fd, Interest interest, Watcher& watcher) override UNISONO_REQUIRES(role);
  void change(int fd, Interest interest) override UNISONO_REQUIRES(role);
  void unwatch(int fd) noexcept override UNISONO_REQUIRES(role);
  void startTicks(Milliseconds period, UniqueFunction<void()> tick) override UNISONO_REQUIRES(role);
  void atTurnEnd(UniqueFunction<void()> task) override UNISONO_REQUIRES(role);
  void post(UniqueFunction<void()> task) override;
  void stop() noexcept override;
  void run() override;

 private:
  /// A row of the table that poll() gets, and whom to call about it. Row 0 is the eventfd.
  struct Row {
    int fd;  // -1 once unwatched, until the end of the turn
    Watcher* watcher;
    Interest interest;
  };

  struct Table {
    std::vector<pollfd> polled;  // row by row as rows
    std::vector<Row> rows;
    std::vector<std::size_t> byFd;  // the row of a descriptor, or kNowhere
    bool holes = false;             // some rows are unwatched
  };

  std::size_t rowOf(int fd) const noexcept UNISONO_REQUIRES(role);
  void wake() noexcept;
  void dispatch(std::size_t count) UNISONO_REQUIRES(role);
  void report(std::size_t row) UNISONO_REQUIRES(role);
  void tickIfDue() UNISONO_REQUIRES(role);
  void removeUnwatched() noexcept UNISONO_REQUIRES(role);

  const ForkGuard madeIn_;
  const UniqueFd wakeUp_;
  LeakedInChild<TaskQueue> tasks_;
  std::atomic<bool> stopping_{false};
  LeakedInChild<Table> table_ UNISONO_GUARDED_BY(role);
  Milliseconds period_ UNISONO_GUARDED_BY(role){0};
  Deadline nextTick_ UNISONO_GUARDED_BY(role) = Deadline::never();
  UniqueFunction<void()> tick_ UNISONO_GUARDED_BY(role);
  UniqueFunction<void()> turnEnd_ UNISONO_GUARDED_BY(role);
};

/// The entry for poll(); a descriptor that nothing is asked of is hidden from it, as poll()
/// would report hang-ups all the same.
pollfd pollEntry(int fd, Interest interest) noexcept {
  const int events = (interest.read ? POLLIN : 0) | (interest.write ? POLLOUT : 0);
  return {.fd = events == 0 ? -1 : fd, .events = static_cast<short>(events), .revents = 0};
}

/// After this one element more does not throw: the tables must not get out of step.
template <typename T>
void makeRoom(std::vector<T>& table) {
  if (table.size() == table.capacity()) {
    table.reserve(2 * table.size());
  }
}

PollReactor::PollReactor() : wakeUp_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!wakeUp_.valid()) {
    throw DistError({.reason = Reason::RESOURCE,
                     .what = str("cannot make an event loop: ", errnoDetail(errno)),
                     .hint = "raise the limit on open files (ulimit -n)"});
  }
  table_->polled.push_back(pollEntry(wakeUp_.get(), {.read = true}));
  table_->rows.push_back({wakeUp_.get(), nullptr, {.read = true}});
}

std::size_t PollReactor::rowOf(int fd) const noexcept {
  const auto index = static_cast<std::size_t>(fd);
  return fd >= 0 && index < table_->byFd.size() ? table_->byFd[index] : kNowhere;
}

Status PollReactor::watch(int fd, Interest interest, Watcher& watcher) {
  role.assertHeld();
  if (rowOf(fd) != kNowhere) {
    return {Reason::USAGE, str("descriptor ", fd, " is watched already")};
  }
  if (::fcntl(fd, F_GETFD) < 0) {
    return {Reason::RESOURCE, str("cannot watch descriptor ", fd, ": ", errnoDetail(errno))};
  }
  const auto index = static_cast<std::size_t>(fd);
  if (index >= table_->byFd.size()) {
    table_->byFd.resize(index + 1, kNowhere);
  }
  makeRoom(table_->rows);
  makeRoom(table_->polled);
  table_->byFd[index] = table_->rows.size();
  table_->rows.push_back({fd, &watcher, interest});
  table_->polled.push_back(pollEntry(fd, interest));
  return Status::ok();
}

void PollReactor::change(int fd, Interest interest) {
  role.assertHeld();
  const std::size_t row = rowOf(fd);
  UNISONO_DCHECK(row != kNowhere);
  if (row == kNowhere || table_->rows[row].interest == interest) {
    return;
  }
  // What was ready in this turn is forgotten with it: it will be found again.
  table_->rows[row].interest = interest;
  table_->polled[row] = pollEntry(fd, interest);
}

void PollReactor::unwatch(int fd) noexcept {
  const std::size_t row = rowOf(fd);
  if (row == kNowhere) {
    return;
  }
  table_->byFd[static_cast<std::size_t>(fd)] = kNowhere;
  table_->rows[row] = {-1, nullptr, {}};
  table_->polled[row] = pollEntry(-1, {});
  table_->holes = true;
}

void PollReactor::startTicks(Milliseconds period, UniqueFunction<void()> tick) {
  role.assertHeld();
  tick_ = std::move(tick);
  period_ = period;
  nextTick_ = Deadline::after(period);
}

void PollReactor::atTurnEnd(UniqueFunction<void()> task) {
  role.assertHeld();
  turnEnd_ = std::move(task);
}

void PollReactor::post(UniqueFunction<void()> task) {
  if (!madeIn_.inChild() && tasks_->push(std::move(task))) {
    wake();
  }
}

void PollReactor::stop() noexcept {
  if (!madeIn_.inChild()) {
    stopping_.store(true, std::memory_order_release);
    wake();
  }
}

void PollReactor::wake() noexcept {
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the loop is awake anyway.
  static_cast<void>(!::write(wakeUp_.get(), &one, sizeof one));
}

void PollReactor::run() {
  role.adopt();
  role.assertHeld();
  for (bool stopping = false; !stopping;) {
    const Milliseconds sleep = std::min(nextTick_.remaining(), kLongestSleep);
    const int ready =
        ::poll(table_->polled.data(), table_->polled.size(), static_cast<int>(sleep.count()));
    if (ready > 0) {
      dispatch(table_->polled.size());
    }
    tickIfDue();
    if (ready > 0 && table_->polled[0].revents != 0) {
      std::uint64_t count = 0;
      static_cast<void>(!::read(wakeUp_.get(), &count, sizeof count));
      // Looked at before the tasks are taken: what was posted before stop() is among them.
      // Acquire pairs with the release in stop().
      stopping = stopping_.load(std::memory_order_acquire);
      tasks_->runAll();
    }
    if (ready > 0 && turnEnd_) {
      runOnLoop(turnEnd_, "the end of a turn");
    }
    removeUnwatched();
  }
}

/// Calls the watchers of the first `count` rows; handlers may add rows behind them.
void PollReactor::dispatch(std::size_t count) {
  for (std::size_t row = 1; row < count; ++row) {
    if (table_->polled[row].revents != 0) {
      report(row);
    }
  }
}

void PollReactor::report(std::size_t row) {
  const int events = table_->polled[row].revents;
  const bool broken = (events & (POLLERR | POLLHUP | POLLNVAL)) != 0;
  const Interest asked = table_->rows[row].interest;
  table_->rows[row].watcher->onReady(asked.read && (broken || (events & POLLIN) != 0),
                                     asked.write && (broken || (events & POLLOUT) != 0));
}

void PollReactor::tickIfDue() {
  if (nextTick_.expired()) {
    nextTick_ = Deadline::after(period_);
    runOnLoop(tick_, "a tick");
  }
}

void PollReactor::removeUnwatched() noexcept {
  if (!table_->holes) {
    return;
  }
  std::size_t kept = 0;
  for (std::size_t row = 0; row < table_->rows.size(); ++row) {
    if (table_->rows[row].fd < 0) {
      continue;
    }
    if (row != 0) {
      table_->byFd[static_cast<std::size_t>(table_->rows[row].fd)] = kept;
    }
    table_->rows[kept] = table_->rows[row];
    table_->polled[kept] = table_->polled[row];
    ++kept;
  }
  table_->rows.resize(kept);
  table_->polled.resize(kept);
  table_->holes = false;
}

}  // namespace

std::unique_ptr<Reactor> makePollReactor() {
  return std::make_unique<PollReactor>();
}

}  // namespace unisono

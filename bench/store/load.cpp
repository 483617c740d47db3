#include "bench/store/load.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utility>

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "base/wait.hpp"
#include "net/connect.hpp"

namespace unisono::bench {
namespace {

/// Sleeps until something happens to one of many descriptors, and tells to which.
class EpollWaitable final : public Waitable {
 public:
  explicit EpollWaitable(int fd) noexcept : fd_(fd) {}
  void sleep(Milliseconds most) override {
    // A signal counts as an early end.
    count_ = std::max(0, ::epoll_wait(fd_, events_.data(), static_cast<int>(events_.size()),
                                      static_cast<int>(most.count())));
  }
  std::span<const epoll_event> happened() const {
    return std::span(events_).first(static_cast<std::size_t>(count_));
  }
  void clear() noexcept { count_ = 0; }

 private:
  const int fd_;
  int count_ = 0;
  std::array<epoll_event, 512> events_;
};

/// Lets Ctrl-C be the reason, if it was: it may reach the servers as well.
void obeyInterrupts() {
  TimerWaitable moment(Milliseconds(0));
  const WaitContext now{.deadline = Deadline::after(Milliseconds(1)), .subject = {}};
  static_cast<void>(waitUntil([] { return false; }, now, moment));
}

}  // namespace

Load::Load(Target target, std::size_t clients, Milliseconds patience)
    : target_(std::move(target)),
      patience_(patience),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      buffer_(1 << 18) {
  const Deadline deadline = Deadline::after(patience_);
  clients_.resize(clients);
  for (std::size_t i = 0; i < clients; ++i) {
    clients_[i].fd = connectTo(target_.host, target_.port, deadline, patience_).release();
    watch(i, EPOLL_CTL_ADD, EPOLLIN);
  }
  const Exchange hello = greeting(target_.dialect);
  Run run{.what = hello, .depth = 1, .piece = hello.request, .end = systemClock().now()};
  drive(run, clients);
}

Load::~Load() = default;

void Load::watch(std::size_t which, int action, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.u64 = which}};
  if (::epoll_ctl(epoll_.get(), action, clients_[which].fd.get(), &event) != 0) {
    failed(str("cannot be watched: ", errnoDetail(errno)));
  }
}

void Load::failed(std::string_view what, Reason reason) const {
  obeyInterrupts();
  throw DistNetworkError({.reason = reason,
                          .what = str("the load on ", target_.name, " at ", target_.host, ":",
                                      target_.port, " was broken off: ", what),
                          .hint = "look at the process that runs the server"});
}

void Load::begin(std::size_t which, Run& run) {
  Client& client = clients_[which];
  client.repliesLeft = run.depth;
  client.bytesLeft = run.depth * run.what.replyBytes;
  client.linesLeft = run.depth * run.what.replyLines;
  client.unsent = run.piece;
  client.sentAt = systemClock().now();
  ++run.busy;
  if (!sendMore(client)) {
    watch(which, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
  }
}

/// Sends what fits; true when that was all. A server that first wants its replies to be taken
/// would never take the rest of a long piece.
bool Load::sendMore(Client& client) {
  while (!client.unsent.empty()) {
    const ssize_t sent = ::send(client.fd.get(), client.unsent.data(), client.unsent.size(),
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      client.unsent.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      failed(str("a request could not be sent: ", errnoDetail(errno)));
    }
  }
  return true;
}

/// Takes `bytes` of replies; true when those to all requests of the client are complete.
bool Load::isOver(Client& client, const Run& run, std::string_view bytes) {
  if (run.what.replyLines == 0) {
    if (bytes.size() > client.bytesLeft) {
      failed("more was answered than asked");
    }
    client.bytesLeft -= bytes.size();
    return client.bytesLeft == 0;
  }
  const auto lines = static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), '\n'));
  if (bytes.front() == '-' || lines > client.linesLeft) {
    failed(str("it said ", bytes.substr(0, 80)));
  }
  client.linesLeft -= lines;
  return client.linesLeft == 0;
}

void Load::receive(std::size_t which, Run& run) {
  Client& client = clients_[which];
  const ssize_t got = ::recv(client.fd.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (got <= 0) {
    failed(got == 0 ? "it closed a connection" : errnoDetail(errno));
  }
  const bool over = isOver(client, run, {buffer_.data(), static_cast<std::size_t>(got)});
  const std::size_t left = run.what.replyLines > 0
                               ? (client.linesLeft + run.what.replyLines - 1) / run.what.replyLines
                               : (client.bytesLeft + run.what.replyBytes - 1) / run.what.replyBytes;
  const std::size_t came = client.repliesLeft - left;
  client.repliesLeft = left;
  const TimePoint now = systemClock().now();
  const auto took = std::chrono::nanoseconds(now - client.sentAt).count();
  run.times.add(static_cast<std::uint64_t>(took), came);
  if (over) {
    --run.busy;
    if (now < run.end) {
      begin(which, run);
    }
  }
}

/// Lets the first `clients` send, and goes on until the end of the run and all replies are here.
void Load::drive(Run& run, std::size_t clients) {
  for (std::size_t i = 0; i < clients; ++i) {
    begin(i, run);
  }
  EpollWaitable on(epoll_.get());
  while (run.busy > 0) {
    on.clear();
    const WaitContext limit{.deadline = Deadline::after(patience_), .subject = {}};
    if (!waitUntil([&] { return !on.happened().empty(); }, limit, on)) {
      failed(str("no answer for ", formatDuration(patience_)), Reason::TIMEOUT);
    }
    for (const epoll_event& event : on.happened()) {
      const auto which = static_cast<std::size_t>(event.data.u64);
      if ((event.events & EPOLLOUT) != 0 && sendMore(clients_[which])) {
        watch(which, EPOLL_CTL_MOD, EPOLLIN);
      }
      if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) {
        receive(which, run);
      }
    }
  }
}

void Load::once(const Exchange& what) {
  Run run{.what = what, .depth = 1, .piece = what.request, .end = systemClock().now()};
  drive(run, 1);
}

LoadFigures Load::run(const Exchange& what, std::size_t depth, Milliseconds duration) {
  std::string piece;
  for (std::size_t i = 0; i < depth; ++i) {
    piece += what.request;
  }
  const TimePoint start = systemClock().now();
  Run run{.what = what, .depth = depth, .piece = std::move(piece), .end = start + duration};
  drive(run, clients_.size());
  // All that was asked is answered by now: nothing of it is left out, nor of the time it took.
  const std::chrono::duration<double> took = systemClock().now() - start;
  return {.opsPerSecond = static_cast<double>(run.times.total()) / took.count(),
          .p50Us = run.times.quantile(0.50) / 1000,
          .p99Us = run.times.quantile(0.99) / 1000};
}

}  // namespace unisono::bench

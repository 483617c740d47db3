#include "bench/store/load.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utility>

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "net/connect.hpp"

namespace unisono::bench {
namespace {

constexpr Milliseconds kPatience(20'000);  // with a server that does not answer

}  // namespace

Load::Load(Target target, std::size_t clients)
    : target_(std::move(target)), epoll_(::epoll_create1(EPOLL_CLOEXEC)), buffer_(1 << 18) {
  const Deadline deadline = Deadline::after(kPatience);
  clients_.resize(clients);
  for (std::size_t i = 0; i < clients; ++i) {
    clients_[i].fd = connectTo(target_.host, target_.port, deadline, kPatience).release();
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, clients_[i].fd.get(), &event) != 0) {
      failed(str("cannot be watched: ", errnoDetail(errno)));
    }
  }
  const Exchange hello = greeting(target_.dialect);
  Run run{.what = hello, .depth = 1, .piece = hello.request, .end = systemClock().now()};
  drive(run, clients);
}

Load::~Load() = default;

void Load::failed(std::string_view what) const {
  throw DistNetworkError({.reason = Reason::PEER_UNREACHABLE,
                          .what = str("the load on ", target_.name, " at ", target_.host, ":",
                                      target_.port, " was broken off: ", what)});
}

void Load::send(Client& client, Run& run) {
  client.repliesLeft = run.depth;
  client.bytesLeft = run.depth * run.what.replyBytes;
  client.linesLeft = run.depth * run.what.replyLines;
  client.sentAt = systemClock().now();
  ++run.busy;
  for (std::string_view rest = run.piece; !rest.empty();) {
    const ssize_t sent = ::send(client.fd.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    pollfd writable{.fd = client.fd.get(), .events = POLLOUT, .revents = 0};
    if (errno != EAGAIN || ::poll(&writable, 1, static_cast<int>(kPatience.count())) != 1) {
      failed(str("a request could not be sent: ", errnoDetail(errno)));
    }
  }
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

void Load::receive(Client& client, Run& run) {
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
      send(client, run);
    }
  }
}

/// Lets the first `clients` send, and goes on until the end of the run and all replies are here.
void Load::drive(Run& run, std::size_t clients) {
  for (std::size_t i = 0; i < clients; ++i) {
    send(clients_[i], run);
  }
  std::array<epoll_event, 512> events;
  while (run.busy > 0) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   static_cast<int>(kPatience.count()));
    if (count == 0) {
      failed(str("no answer for ", kPatience.count() / 1000, " s"));
    }
    for (int i = 0; i < count; ++i) {
      receive(clients_[events[static_cast<std::size_t>(i)].data.u64], run);
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
